"""Callers with permission on some resources see and change exactly those; what they may not see is not given away."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.api.answering import ask, services_of
from tests.unit.api.controller_requests import Asker, answered
from tests.unit.api.permissions import DeniesAll, Grants, on_cluster, on_group, on_topic, on_transactional_id
from tests.unit.groups.test_handlers import OTHER_ID, TOPIC_ID, Caller, commit_request, join, topic

from tidelog.api.authorized_operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS
from tidelog.controller.core.topics import NewTopic
from tidelog.groups.core.messages import Commit, OffsetToCommit
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.generated.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest
from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from tidelog.protocol.generated.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest
from tidelog.protocol.generated.list_groups import ListGroupsRequest
from tidelog.protocol.generated.list_transactions import ListTransactionsRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.transactions.core.state import TransactionState

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
UNKNOWN_ID = b"\x01" * 16


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -- topics ------------------------------------------------------------------------------------------------------------


def described(response: Any) -> dict[str | None, int]:
    return {each.name: each.error_code for each in response.topics}


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_metadata_of_all_topics_leaves_out_what_is_hidden(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("seen"), NewTopic("hidden")])
        request = MetadataRequest(topics=[] if version == 0 else None)
        assert described(await asker.ask(request, version)) == {"seen": 0}

    answered(tmp_path, use, authorizer=Grants(*on_topic("seen", DESCRIBE)))


def test_metadata_does_not_say_whether_a_hidden_topic_exists(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("seen"), NewTopic("hidden")])
        names = ("seen", "hidden", "missing", "a b", "gone")
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        response = await asker.ask(request)
        assert described(response) == {
            "seen": 0,
            "hidden": DENIED,
            "missing": DENIED,
            "a b": DENIED,
            "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        told = {each.name: each for each in response.topics}
        assert told["hidden"].topic_id == told["missing"].topic_id == bytes(16)
        assert told["hidden"].partitions == []
        assert set(asker.controller.image.topics) == {"seen", "hidden"}, "none is created for it"

    grants = Grants(*on_topic("seen", DESCRIBE), *on_topic("gone", DESCRIBE), *on_cluster(CREATE))
    answered(tmp_path, use, authorizer=grants, auto_create_topics_enable=False)


def test_metadata_by_id_knows_no_hidden_topic(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("seen"), NewTopic("hidden")])
        topics = asker.controller.image.topics
        ids = [topics["seen"].topic_id, topics["hidden"].topic_id, UNKNOWN_ID]
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=each) for each in ids])
        response = await asker.ask(request)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert [(each.name, each.error_code) for each in response.topics] == [
            ("seen", 0),
            (None, unknown),
            (None, unknown),
        ]
        assert [each.topic_id for each in response.topics] == ids

    answered(tmp_path, use, authorizer=Grants(*on_topic("seen", DESCRIBE)))


@pytest.mark.parametrize("grants", [on_cluster(CREATE), on_topic("new", CREATE)], ids=["cluster", "topic"])
def test_metadata_creates_what_may_be_created(tmp_path: Path, grants: list[Any]) -> None:
    async def use(asker: Asker) -> None:
        names = ("new", "other", "hidden")
        topics = [MetadataRequestTopic(name=name) for name in names]
        found = described(await asker.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True)))
        may_all = grants == on_cluster(CREATE)
        assert found == {"new": 0, "other": 0 if may_all else DENIED, "hidden": DENIED}
        assert set(asker.controller.image.topics) == ({"new", "other"} if may_all else {"new"})

    authorizer = Grants(*grants, *on_topic("new", DESCRIBE), *on_topic("other", DESCRIBE))
    answered(tmp_path, use, authorizer=authorizer)


def test_metadata_says_what_the_caller_may_do(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("seen"), NewTopic("hidden")])
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="seen"), MetadataRequestTopic(name="hidden")],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        response = await asker.ask(request, 8)
        assert response.cluster_authorized_operations == 0, "the cluster may not be described"
        operations = {each.name: each.topic_authorized_operations for each in response.topics}
        assert operations == {"seen": 1 << READ | 1 << DESCRIBE, "hidden": -(2**31)}

    grants = Grants(*on_topic("seen", READ, DESCRIBE), *on_topic("hidden", READ), *on_cluster(ALTER))
    answered(tmp_path, use, authorizer=grants)


def test_describe_cluster_says_what_the_caller_may_do(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await asker.ask(request)
        assert response.cluster_authorized_operations == 1 << DESCRIBE | 1 << ALTER
        assert 0 < response.cluster_authorized_operations < CLUSTER_OPERATIONS

    answered(tmp_path, use, authorizer=Grants(*on_cluster(DESCRIBE, ALTER)))


def test_describe_topic_partitions_pages_over_what_is_seen(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic(name) for name in ("a", "b", "c", "d")])
        first = await asker.ask(DescribeTopicPartitionsRequest(response_partition_limit=1))
        assert described(first) == {"a": 0}
        assert first.topics[0].topic_authorized_operations == 1 << DESCRIBE
        assert first.next_cursor.topic_name == "c", "the cursor names no hidden topic"
        cursor = DescribeTopicPartitionsRequestCursor(topic_name="c")
        rest = await asker.ask(DescribeTopicPartitionsRequest(response_partition_limit=9, cursor=cursor))
        assert (described(rest), rest.next_cursor) == ({"c": 0}, None)
        named = [TopicRequest(name=name) for name in ("a", "b", "missing")]
        response = await asker.ask(DescribeTopicPartitionsRequest(topics=named))
        assert described(response) == {"a": 0, "b": DENIED, "missing": DENIED}

    answered(tmp_path, use, authorizer=Grants(*on_topic("a", DESCRIBE), *on_topic("c", DESCRIBE)))


def create_request(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    )


def test_create_topics_by_name_or_all_of_them(tmp_path: Path) -> None:
    grants = Grants(*on_topic("mine", CREATE, DESCRIBE_CONFIGS), *on_topic("plain", CREATE))

    async def use(asker: Asker) -> None:
        response = await asker.ask(create_request("mine", "theirs", "plain"))
        assert described(response) == {"mine": 0, "theirs": DENIED, "plain": 0}
        assert set(asker.controller.image.topics) == {"mine", "plain"}
        told = {each.name: each for each in response.topics}
        assert (told["mine"].num_partitions, told["mine"].topic_config_error_code) == (1, 0)
        assert told["mine"].configs
        assert (told["plain"].num_partitions, told["plain"].topic_config_error_code) == (-1, DENIED)
        assert not told["plain"].configs
        grants.grants.update(on_cluster(CREATE))
        assert described(await asker.ask(create_request("theirs"), 2)) == {"theirs": 0}

    answered(tmp_path, use, authorizer=grants)


def test_delete_topics_gives_no_name_away(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        names = ("mine", "seen", "hidden", "by-id")
        await asker.controller.create_topics([NewTopic(name) for name in names])
        ids = {name: asker.controller.image.topics[name].topic_id for name in names}
        wanted = [DeleteTopicState(topic_id=ids[name]) for name in ("seen", "hidden", "by-id")]
        wanted += [DeleteTopicState(name=name) for name in ("mine", "seen", "hidden", "missing", "seen-missing")]
        wanted.append(DeleteTopicState(topic_id=UNKNOWN_ID))
        for each in wanted[:3] + wanted[-1:]:
            each.name = None
        response = await asker.ask(DeleteTopicsRequest(topics=wanted))
        told = {(each.name, each.topic_id): each.error_code for each in response.responses}
        nothing = bytes(16)
        assert told == {
            ("by-id", ids["by-id"]): 0,
            ("mine", ids["mine"]): 0,
            ("seen", ids["seen"]): DENIED,
            (None, ids["hidden"]): DENIED,
            ("seen", nothing): DENIED,
            ("hidden", nothing): DENIED,
            ("missing", nothing): DENIED,
            ("seen-missing", nothing): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (None, UNKNOWN_ID): ErrorCode.UNKNOWN_TOPIC_ID,
        }
        assert set(asker.controller.image.topics) == {"seen", "hidden"}

    grants = Grants(
        *on_topic("mine", DELETE, DESCRIBE),
        *on_topic("by-id", DELETE, DESCRIBE),
        *on_topic("seen", DESCRIBE),
        *on_topic("seen-missing", DESCRIBE),
    )
    answered(tmp_path, use, authorizer=grants)


def test_create_partitions_of_own_topics(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("mine"), NewTopic("theirs")])
        topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("mine", "theirs", "missing")]
        response = await asker.ask(CreatePartitionsRequest(topics=topics))
        assert {each.name: each.error_code for each in response.results} == {
            "mine": 0,
            "theirs": DENIED,
            "missing": DENIED,
        }
        counts = {name: len(each.partitions) for name, each in asker.controller.image.topics.items()}
        assert counts == {"mine": 3, "theirs": 1}

    answered(tmp_path, use, authorizer=Grants(*on_topic("mine", ALTER)))


# -- settings ----------------------------------------------------------------------------------------------------------

TOPIC_TYPE, BROKER_TYPE, LOGGER_TYPE, METRICS_TYPE, GROUP_TYPE = 2, 4, 8, 16, 32
RESOURCES = [(TOPIC_TYPE, "mine"), (TOPIC_TYPE, "theirs"), (BROKER_TYPE, "1"), (LOGGER_TYPE, "1"), (GROUP_TYPE, "g")]


@pytest.mark.parametrize("version", [1, 4])
def test_describe_configs_asks_by_type_of_resource(tmp_path: Path, version: int) -> None:
    grants = Grants(*on_topic("mine", DESCRIBE_CONFIGS))

    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("mine"), NewTopic("theirs")])
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in (*RESOURCES, (TOPIC_TYPE, "missing"), (METRICS_TYPE, "m"))
        ]
        response = await asker.ask(DescribeConfigsRequest(resources=resources), version)
        found = {(each.resource_type, each.resource_name): each for each in response.results}
        cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert {key: each.error_code for key, each in found.items()} == {
            (TOPIC_TYPE, "mine"): 0,
            (TOPIC_TYPE, "theirs"): DENIED,
            (TOPIC_TYPE, "missing"): DENIED,
            (BROKER_TYPE, "1"): cluster,
            (LOGGER_TYPE, "1"): cluster,
            (METRICS_TYPE, "m"): cluster,
            (GROUP_TYPE, "g"): GROUP_DENIED,
        }
        assert {key for key, each in found.items() if each.configs} == {(TOPIC_TYPE, "mine")}
        grants.grants = {*on_cluster(DESCRIBE_CONFIGS), *on_group("g", DESCRIBE_CONFIGS)}
        response = await asker.ask(DescribeConfigsRequest(resources=resources[:5]), version)
        assert [each.error_code for each in response.results] == [DENIED, DENIED, 0, 0, 0]

    answered(tmp_path, use, authorizer=grants)


def test_settings_change_by_type_of_resource(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("mine"), NewTopic("theirs")])
        retention = [AlterableConfig(name="retention.ms", value="1000")]
        resources = [
            AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=retention if kind == TOPIC_TYPE else []
            )
            for kind, name in RESOURCES
        ]
        response = await asker.ask(IncrementalAlterConfigsRequest(resources=resources))
        assert {(each.resource_type, each.resource_name): each.error_code for each in response.responses} == {
            (TOPIC_TYPE, "mine"): 0,
            (TOPIC_TYPE, "theirs"): DENIED,
            (BROKER_TYPE, "1"): ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            (LOGGER_TYPE, "1"): ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            (GROUP_TYPE, "g"): GROUP_DENIED,
        }
        configs = {name: dict(each.config) for name, each in asker.controller.image.topics.items()}
        assert configs == {"mine": {"retention.ms": "1000"}, "theirs": {}}

    answered(tmp_path, use, authorizer=Grants(*on_topic("mine", ALTER_CONFIGS)))


# -- groups ------------------------------------------------------------------------------------------------------------


class Node(Caller):
    """A node with groups, where everything is allowed until it gets other grants."""

    def allow(self, *grants: Any) -> Grants:
        authorizer = Grants(*grants)
        vars(self.services)["authorizer"] = authorizer
        return authorizer


async def node_with_group() -> Node:
    node = Node()
    node.image.topics["u"] = node.image.topics_by_id[OTHER_ID] = topic("u", OTHER_ID, 1)
    await node.call(FindCoordinatorRequest(key="g"), 0)
    return node


def commit_of_both(version: int) -> Any:
    request = commit_request(version, 0)
    request.topics += commit_request(version, 0, name="u", topic_id=OTHER_ID).topics
    return request


@pytest.mark.anyio
@pytest.mark.parametrize("version", [2, 9, 10])
async def test_offsets_are_committed_for_topics_that_may_be_read(version: int) -> None:
    node = await node_with_group()
    node.allow(*on_group("g", READ, DESCRIBE), *on_topic("t", READ, DESCRIBE), *on_topic("u", DESCRIBE))
    response = await node.call(commit_of_both(version), version)
    assert [[each.error_code for each in answer.partitions] for answer in response.topics] == [[0], [DENIED]]
    everything = OffsetFetchRequest(group_id="g", topics=None)
    stored = await node.call(everything, 7)
    assert [(each.name, len(each.partitions)) for each in stored.topics] == [("t", 1)]
    missing = commit_request(2, 0, name="missing")
    assert (await node.call(missing, 2)).topics[0].partitions[0].error_code == DENIED
    await node.groups.stop()


@pytest.mark.anyio
@pytest.mark.parametrize("version", [1, 2, 7])
async def test_offset_fetch_tells_of_topics_that_may_be_described(version: int) -> None:
    node = await node_with_group()
    await node.call(commit_of_both(9), 9)
    node.allow(*on_group("g", DESCRIBE), *on_topic("t", DESCRIBE))
    asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("t", "u", "missing")]
    response = await node.call(OffsetFetchRequest(group_id="g", topics=asked), version)
    assert response.error_code == 0
    assert {each.name: [(p.committed_offset, p.error_code) for p in each.partitions] for each in response.topics} == {
        "t": [(10, 0)],
        "u": [(-1, DENIED)],
        "missing": [(-1, DENIED)],
    }
    if version >= 2:
        everything = await node.call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [each.name for each in everything.topics] == ["t"]
    await node.groups.stop()


@pytest.mark.anyio
@pytest.mark.parametrize("version", [8, 10])
async def test_offset_fetch_answers_each_group(version: int) -> None:
    node = await node_with_group()
    await node.call(commit_of_both(9), 9)
    node.allow(*on_group("g", DESCRIBE), *on_topic("t", DESCRIBE))
    by_id = version >= 10
    asked = [
        OffsetFetchRequestTopics(
            name="" if by_id else name, topic_id=topic_id if by_id else bytes(16), partition_indexes=[0]
        )
        for name, topic_id in (("t", TOPIC_ID), ("u", OTHER_ID))
    ]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=asked),
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="theirs", topics=asked),
    ]
    some, everything, theirs = (await node.call(OffsetFetchRequest(groups=groups), version)).groups
    assert [(p.committed_offset, p.error_code) for each in some.topics for p in each.partitions] == [
        (10, 0),
        (-1, DENIED),
    ]
    assert [(each.topic_id if by_id else each.name) for each in everything.topics] == [TOPIC_ID if by_id else "t"]
    assert (theirs.error_code, theirs.topics) == (GROUP_DENIED, [])
    await node.groups.stop()


@pytest.mark.anyio
async def test_the_oldest_offset_fetch_bears_the_error_of_the_group_in_its_partitions() -> None:
    node = await node_with_group()
    node.allow()
    asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    response = await node.call(OffsetFetchRequest(group_id="g", topics=asked), 1)
    assert [each.error_code for each in response.topics[0].partitions] == [GROUP_DENIED] * 2
    response = await node.call(OffsetFetchRequest(group_id="g", topics=asked), 2)
    assert (response.error_code, response.topics) == (GROUP_DENIED, [])
    await node.groups.stop()


@pytest.mark.anyio
async def test_find_coordinator_asks_by_type_of_key() -> None:
    node = await node_with_group()
    node.allow(*on_group("g", DESCRIBE), *on_transactional_id("theirs", DESCRIBE))
    response = await node.call(FindCoordinatorRequest(coordinator_keys=["g", "theirs"], key_type=0), 6)
    assert [(each.key, each.error_code, each.node_id) for each in response.coordinators] == [
        ("g", 0, 1),
        ("theirs", GROUP_DENIED, -1),
    ]
    for version in (1, 6):
        key = {"key": "x"} if version < 4 else {"coordinator_keys": ["x"]}
        response = await node.call(FindCoordinatorRequest(key_type=1, **key), version)
        answer = response if version < 4 else response.coordinators[0]
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    await node.groups.stop()


@pytest.mark.anyio
async def test_groups_are_listed_described_and_deleted_where_that_is_allowed() -> None:
    node = await node_with_group()
    await join(node)
    await join(node, group="theirs")
    grants = node.allow(*on_group("g", DESCRIBE, READ))
    assert [each.group_id for each in (await node.call(ListGroupsRequest(), 5)).groups] == ["g"]
    request = DescribeGroupsRequest(groups=["theirs", "g", "missing"], include_authorized_operations=True)
    response = await node.call(request, 6)
    assert {each.group_id: (each.error_code, len(each.members)) for each in response.groups} == {
        "g": (0, 1),
        "theirs": (GROUP_DENIED, 0),
        "missing": (GROUP_DENIED, 0),
    }
    assert response.groups[0].authorized_operations == 1 << READ | 1 << DESCRIBE != GROUP_OPERATIONS
    response = await node.call(DeleteGroupsRequest(groups_names=["g", "theirs", "missing"]), 2)
    assert {each.error_code for each in response.results} == {GROUP_DENIED}
    grants.grants |= {*on_cluster(DESCRIBE), *on_group("missing", DELETE)}
    assert {each.group_id for each in (await node.call(ListGroupsRequest(), 0)).groups} == {"g", "theirs"}
    response = await node.call(DeleteGroupsRequest(groups_names=["g", "missing"]), 2)
    assert {each.group_id: each.error_code for each in response.results} == {
        "g": GROUP_DENIED,
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    await node.groups.stop()


@pytest.mark.anyio
async def test_a_consumer_subscribes_to_topics_that_it_may_describe() -> None:
    node = await node_with_group()
    node.allow(*on_group("g", READ), *on_topic("t", DESCRIBE))

    def subscribe(*names: str) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=list(names),
            topic_partitions=[],
        )

    for hidden in ("u", "missing"):
        refused = await node.call(subscribe("t", hidden), 1)
        assert (refused.error_code, refused.assignment) == (DENIED, None)
    assert (await node.call(subscribe("t"), 1)).error_code == 0
    await node.groups.stop()


@pytest.mark.anyio
async def test_a_pattern_matches_topics_that_may_be_described() -> None:
    node = await node_with_group()
    node.allow(*on_group("g", READ), *on_topic("t", DESCRIBE))

    async def subscribe(pattern: str) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_regex=pattern, topic_partitions=[]
        )
        code: int = (await node.call(request, 1)).error_code
        return code

    assert await subscribe("t|u") == DENIED
    assert await subscribe("(") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await subscribe("t.*") == 0
    await node.groups.stop()


@pytest.mark.anyio
async def test_a_consumer_group_is_described_with_all_its_topics_or_not_at_all() -> None:
    node = await node_with_group()
    subscription = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert (await node.call(subscription, 1)).error_code == 0
    grants = node.allow(*on_group("g", DESCRIBE))
    request = ConsumerGroupDescribeRequest(group_ids=["g", "theirs"], include_authorized_operations=True)
    hidden, theirs = (await node.call(request, 1)).groups
    assert (hidden.error_code, hidden.members, hidden.authorized_operations) == (DENIED, [], -(2**31))
    assert (theirs.group_id, theirs.error_code) == ("theirs", GROUP_DENIED)
    grants.grants.update(on_topic("t", DESCRIBE))
    mine = (await node.call(request, 1)).groups[0]
    assert (mine.error_code, [each.member_id for each in mine.members]) == (0, ["m"])
    assert mine.authorized_operations == 1 << DESCRIBE
    await node.groups.stop()


@pytest.mark.anyio
async def test_offsets_are_deleted_of_topics_that_may_be_read() -> None:
    node = await node_with_group()
    await node.call(commit_of_both(9), 9)
    node.allow(*on_group("g", DELETE), *on_topic("t", READ))
    wanted = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("t", "u", "missing")
    ]
    response = await node.call(OffsetDeleteRequest(group_id="g", topics=wanted), 0)
    assert response.error_code == 0
    codes = {each.name: each.partitions[0].error_code for each in response.topics}
    assert codes == {"t": 0, "u": DENIED, "missing": DENIED}
    node.allow(*on_group("g", DESCRIBE), *on_topic("t", DESCRIBE), *on_topic("u", DESCRIBE))
    stored = await node.call(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [each.name for each in stored.topics] == ["u"]
    await node.groups.stop()


# -- transactions ------------------------------------------------------------------------------------------------------


class Commits:
    """A group coordinator that takes what it is given."""

    def __init__(self) -> None:
        self.offsets: list[OffsetToCommit] = []

    async def partition_of(self, group_id: str) -> int:
        return 0

    def commit_transactional(self, request: Any) -> tuple[list[ErrorCode], None]:
        commit: Commit = request.commit
        self.offsets += commit.offsets
        return [ErrorCode.NONE] * len(commit.offsets), None


def txn_commit() -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("t", "u", "missing")],
    )


@pytest.mark.anyio
@pytest.mark.parametrize("version", [0, 5])
async def test_offsets_of_a_transaction_need_three_permissions(version: int) -> None:
    groups, grants = Commits(), Grants()

    class Writes:
        def check(self, asked: Any, adds: bool) -> dict[TopicPartition, ErrorCode]:
            return dict.fromkeys(asked.partitions, ErrorCode.NONE)

    services = services_of(
        authorizer=grants,
        groups=groups,
        transactions=SimpleNamespace(settings=SimpleNamespace(verifies_partitions=False)),
        transactional_writes=Writes(),
        metadata=SimpleNamespace(
            image=SimpleNamespace(topics={"t": topic("t", TOPIC_ID, 1), "u": topic("u", OTHER_ID, 1)})
        ),
    )

    async def codes() -> dict[str, int]:
        response = await ask(services, txn_commit(), version)
        return {each.name: each.partitions[0].error_code for each in response.topics}

    names = ("t", "u", "missing")
    assert await codes() == dict.fromkeys(names, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    grants.grants.update(on_transactional_id("x", WRITE))
    assert await codes() == dict.fromkeys(names, GROUP_DENIED)
    grants.grants.update(on_group("g", READ))
    assert await codes() == dict.fromkeys(names, DENIED)
    assert not groups.offsets
    grants.grants.update([*on_topic("t", READ), *on_topic("missing", READ)])
    assert await codes() == {"t": 0, "u": DENIED, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [offset.topic for offset in groups.offsets] == ["t"]


@pytest.mark.anyio
async def test_offsets_join_a_transaction_for_groups_that_may_be_read() -> None:
    services = services_of(authorizer=Grants(*on_transactional_id("x", WRITE)))
    response = await ask(services, AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), 4)
    assert response.error_code == GROUP_DENIED


@pytest.mark.anyio
async def test_one_denied_topic_keeps_all_partitions_out_of_a_transaction() -> None:
    topics = {name: SimpleNamespace(partitions={0: None}) for name in ("t", "u")}
    services = services_of(
        authorizer=Grants(*on_transactional_id("x", WRITE), *on_topic("t", WRITE)),
        metadata=SimpleNamespace(image=SimpleNamespace(topics=topics)),
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "u", "missing")],
    )
    response = await ask(services, request, 3)
    codes = [each.results_by_partition[0].partition_error_code for each in response.results_by_topic_v3_and_below]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, DENIED, DENIED]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("grants", "code"),
    [
        ([], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (on_topic("t", READ), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (on_cluster(Operation.IDEMPOTENT_WRITE), ErrorCode.NONE),
        (on_topic("any", WRITE), ErrorCode.NONE),
    ],
)
async def test_a_producer_id_needs_the_permission_to_write_anywhere(grants: list[Any], code: ErrorCode) -> None:
    async def next_id() -> int:
        return 7

    services = services_of(authorizer=Grants(*grants), producer_ids=SimpleNamespace(next_id=next_id))
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    response = await ask(services, request, 5)
    expected = (0, 7, 0) if code is ErrorCode.NONE else (code, -1, -1)
    assert (response.error_code, response.producer_id, response.producer_epoch) == expected


@pytest.mark.anyio
async def test_transactions_are_listed_and_described_where_that_is_allowed() -> None:
    ongoing = SimpleNamespace(
        partitions={TopicPartition("t", 0), TopicPartition("u", 0)},
        state=TransactionState.ONGOING,
        timeout_ms=1,
        start_timestamp_ms=2,
        producer_id=3,
        producer_epoch=4,
    )

    async def describe(name: str) -> Any:
        assert name == "x"
        return ongoing

    async def list_transactions(filters: Any) -> list[tuple[str, Any]]:
        return [("x", ongoing), ("theirs", ongoing)]

    services = services_of(
        authorizer=Grants(*on_transactional_id("x", DESCRIBE), *on_topic("t", DESCRIBE)),
        transactions=SimpleNamespace(describe=describe, list_transactions=list_transactions),
    )
    response = await ask(services, DescribeTransactionsRequest(transactional_ids=["x", "theirs"]), 0)
    mine, theirs = response.transaction_states
    assert (mine.error_code, [each.topic for each in mine.topics]) == (0, ["t"])
    assert theirs.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    listed = await ask(services, ListTransactionsRequest(), 2)
    assert [each.transactional_id for each in listed.transaction_states] == ["x"]


# -- nodes -------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_nodes_ask_for_epochs_of_every_topic() -> None:
    class Asked(Exception):
        pass

    def require(name: str, index: int) -> None:
        raise Asked

    authorizer = DeniesAll()
    services = services_of(authorizer=authorizer, partitions=SimpleNamespace(require=require))
    wanted = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0)])
    request = OffsetForLeaderEpochRequest(topics=[wanted])
    response = await ask(services, request, 4)
    assert response.topics[0].partitions[0].error_code == DENIED
    vars(services)["authorizer"] = Grants(*on_cluster(Operation.CLUSTER_ACTION))
    with pytest.raises(Asked):
        await ask(services, request, 4)


def test_every_operation_has_its_bit() -> None:
    assert (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 3400, 8096)
    assert ResourceType.TOPIC == TOPIC_TYPE

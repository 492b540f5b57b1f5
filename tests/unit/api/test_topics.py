"""CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, ElectLeaders, DescribeCluster."""

from pathlib import Path

import pytest
from tests.unit.api.controller_requests import Asker, answered

from tidelog.controller.core.topics import NewTopic
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest
from tidelog.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_in_every_version(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=2,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="retention.ms", value="77")],
                ),
                CreatableTopic(name="a b", num_partitions=1, replication_factor=1),
            ]
        )
        response = await asker.ask(request, version)
        good, bad = response.topics
        assert (good.name, good.error_code, good.error_message) == ("t", 0, None)
        assert (bad.name, bad.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
        topic = asker.controller.image.topics["t"]
        assert len(topic.partitions) == 2
        if version >= 5:
            assert (good.num_partitions, good.replication_factor, bad.num_partitions) == (2, 1, -1)
            configs = {config.name: (config.value, config.config_source) for config in good.configs}
            assert configs["retention.ms"] == ("77", 1)
            assert configs["segment.bytes"] == ("1073741824", 5)
        if version >= 7:
            assert good.topic_id == topic.topic_id

    answered(tmp_path, use)


def test_create_topics_validated_and_assigned_by_hand(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=[1]) for i in range(3)],
        )
        response = await asker.ask(CreateTopicsRequest(topics=[topic], validate_only=True))
        assert (response.topics[0].error_code, response.topics[0].num_partitions) == (0, 3)
        assert asker.controller.image.topics == {}
        await asker.ask(CreateTopicsRequest(topics=[topic]))
        assert len(asker.controller.image.topics["t"].partitions) == 3

    answered(tmp_path, use)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_in_every_version(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
        topic_id = asker.controller.image.topics["b"].topic_id
        if version < 6:
            request = DeleteTopicsRequest(topic_names=["a", "b", "x"])
        else:
            states = [DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=topic_id)]
            request = DeleteTopicsRequest(topics=[*states, DeleteTopicState(name="x")])
        response = await asker.ask(request, version)
        assert [(r.name, r.error_code) for r in response.responses] == [
            ("a", 0),
            ("b", 0),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        if version >= 6:
            assert response.responses[1].topic_id == topic_id
        assert set(asker.controller.image.topics) == {"c"}

    answered(tmp_path, use)


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("a")])
        response = await asker.ask(DeleteTopicsRequest(topic_names=["a"]), version)
        assert [r.error_code for r in response.responses] == [code]
        assert "a" in asker.controller.image.topics

    answered(tmp_path, use, delete_topic_enable=False)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_in_every_version(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", 1)])
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
                CreatePartitionsTopic(name="x", count=2, assignments=None),
            ]
        )
        response = await asker.ask(request, version)
        assert [(r.name, r.error_code) for r in response.results] == [
            ("t", 0),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert len(asker.controller.image.topics["t"].partitions) == 2

    answered(tmp_path, use)


Page = tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]


def page(response: DescribeTopicPartitionsResponse) -> Page:
    cursor = response.next_cursor
    return (
        [(t.name or "", t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics],
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        (["p6", "p5"], 7, None, ([("p5", 0, [0, 1, 2, 3, 4]), ("p6", 0, [0, 1])], ("p6", 2))),
        (["p6", "p5"], 7, ("p5", 3), ([("p5", 0, [3, 4]), ("p6", 0, [0, 1, 2, 3, 4])], None)),
        (["p5", "p6"], 5, None, ([("p5", 0, [0, 1, 2, 3, 4])], ("p6", 0))),
        (["p5"], 0, None, ([("p5", 0, [0])], ("p5", 1))),
        (["p5"], -1, None, ([("p5", 0, [0])], ("p5", 1))),
        (["p5", "nope"], 2, None, ([("nope", 3, []), ("p5", 0, [0, 1])], ("p5", 2))),
        (["a b"], 9, None, ([("a b", 17, [])], None)),
        (["p5"], 5, ("p5", -1), ([("p5", 42, [])], None)),
        (["p5"], 5, ("p5", 99), ([("p5", 0, [])], None)),
        (["p5", "p6"], 5, ("p5", 5), ([("p5", 0, []), ("p6", 0, [0, 1, 2, 3, 4])], None)),
        (["p5"], 5, ("zz", 0), ([("p5", 42, [])], None)),
        (["p5", "p6"], 5, ("p5a", 3), ([("p5", 42, []), ("p6", 42, [])], None)),
        (["nope", "p6"], 5, ("nope", 5), ([("nope", 3, []), ("p6", 0, [0, 1, 2, 3, 4])], None)),
        ([], 3, ("p5", 3), ([("p5", 0, [3, 4]), ("p6", 0, [0])], ("p6", 1))),
        ([], 3, ("p5a", 3), ([("p6", 0, [0, 1, 2])], ("p6", 3))),
        ([], 2000, None, ([("p5", 0, [0, 1, 2, 3, 4]), ("p6", 0, [0, 1, 2, 3, 4])], None)),
    ],
)
def test_describe_topic_partitions_page_by_page(
    tmp_path: Path, names: list[str], limit: int, cursor: tuple[str, int] | None, expected: Page
) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("p6", 5), NewTopic("p5", 5)])
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None
            if cursor is None
            else DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        assert page(await asker.ask(request)) == expected

    answered(tmp_path, use)


def test_the_broker_bounds_a_page(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", 5)])
        response = await asker.ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=5))
        assert page(response) == ([("t", 0, [0, 1, 2])], ("t", 3))

    answered(tmp_path, use, max_request_partition_size_limit=3)


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_in_every_version(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", 2)])
        asked = [TopicPartitions(topic="t", partitions=[0, 9]), TopicPartitions(topic="x", partitions=[0])]
        response = await asker.ask(ElectLeadersRequest(topic_partitions=asked), version)
        assert response.error_code == 0
        results = {
            r.topic: [(p.partition_id, p.error_code) for p in r.partition_result]
            for r in response.replica_election_results
        }
        assert results == {
            "t": [(0, ErrorCode.ELECTION_NOT_NEEDED), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
            "x": [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        }
        response = await asker.ask(ElectLeadersRequest(topic_partitions=None), version)
        assert [(r.topic, r.partition_result) for r in response.replica_election_results] == [("t", [])]

    answered(tmp_path, use)


def test_an_unknown_election_type(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        asked = [TopicPartitions(topic="t", partitions=[0])]
        response = await asker.ask(ElectLeadersRequest(election_type=9, topic_partitions=asked))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        [result] = response.replica_election_results
        assert [p.error_message for p in result.partition_result] == ["Unknown election type 9"]

    answered(tmp_path, use)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_in_every_version(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        response = await asker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        assert (response.error_code, response.cluster_id, response.controller_id) == (0, "cluster", 1)
        [broker] = response.brokers
        assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "127.0.0.1", 9092, "r1")
        assert response.cluster_authorized_operations == 8096

    answered(tmp_path, use, broker_rack="r1")


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_describe_cluster_is_for_brokers(tmp_path: Path, endpoint_type: int, code: ErrorCode) -> None:
    async def use(asker: Asker) -> None:
        response = await asker.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert (response.error_code, response.brokers) == (code, [])

    answered(tmp_path, use)

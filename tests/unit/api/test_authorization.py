"""Every API asks for the permission of its line in the table before it does anything, and answers a denial as Kafka.

A request of each API is put to a node that denies everything. A part of the node that is asked for more than nothing
fails the test, and so does an API without a request here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from tests.unit.api.answering import ask, context_of, services_of
from tests.unit.api.permissions import DeniesAll, Grants, on_cluster, on_topic, on_transactional_id

from tidelog.api.authorization import Authorizer
from tidelog.api.context import Services
from tidelog.api.table import APIS, Api
from tidelog.config.broker import BrokerConfig
from tidelog.metadata.brokers import BrokersImage
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionState, TopicImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.metadata.topics import TopicsImage
from tidelog.model.access import ANYBODY, Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.fetching import Fetching
from tidelog.partitions.producing import Producing
from tidelog.protocol.generated import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    broker_heartbeat,
    broker_registration,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    envelope,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from tidelog.protocol.message import Message, Structure
from tidelog.telemetry.metrics import NodeMetrics

pytestmark = pytest.mark.anyio

TOPIC_ID = b"t" * 16
TOPIC, GROUP, CLUSTER, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

Ask = tuple[Operation, ResourceType]


class Case(NamedTuple):
    request: Callable[[int], Message]
    """Of a version."""
    refusal: ErrorCode | None
    """What every error code of the response is; None where the response leaves out what the caller may not see."""
    also: tuple[Ask, ...] = ()
    """What would do as well as the permission of the line, and is asked for too."""
    says_so_from: int = 0
    """The first version of which the response has room for an error."""


def produce_request(version: int) -> Message:
    data = [produce.PartitionProduceData(index=0, records=b"records")]
    topic = (
        produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=data)
        if version >= 13
        else produce.TopicProduceData(name="t", partition_data=data)
    )
    return produce.ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic])


def fetch_request(version: int) -> Message:
    wanted = [fetch.FetchPartition(partition=0)]
    topic = (
        fetch.FetchTopic(topic_id=TOPIC_ID, partitions=wanted)
        if version >= 13
        else fetch.FetchTopic(topic="t", partitions=wanted)
    )
    return fetch.FetchRequest(max_wait_ms=0, topics=[topic])


def offset_commit_request(version: int) -> Message:
    wanted = [offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topic = (
        offset_commit.OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=wanted)
        if version >= 10
        else offset_commit.OffsetCommitRequestTopic(name="t", partitions=wanted)
    )
    return offset_commit.OffsetCommitRequest(group_id="g", topics=[topic])


def offset_fetch_request(version: int) -> Message:
    if version < 8:
        named = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        return offset_fetch.OffsetFetchRequest(group_id="g", topics=[named])
    topic = offset_fetch.OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[topic])])


def find_coordinator_request(version: int) -> Message:
    if version < 4:
        return find_coordinator.FindCoordinatorRequest(key="g")
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])


def join_group_request(version: int) -> Message:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
    return join_group.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000 if version >= 1 else -1,
        protocol_type="consumer",
        protocols=[protocol],
    )


def sync_group_request(version: int) -> Message:
    if version < 5:
        return sync_group.SyncGroupRequest(group_id="g")
    return sync_group.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range")


def delete_topics_request(version: int) -> Message:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=["t"])
    by_name, by_id = delete_topics.DeleteTopicState(name="t"), delete_topics.DeleteTopicState(topic_id=TOPIC_ID)
    return delete_topics.DeleteTopicsRequest(topics=[by_name, by_id])


def add_partitions_request(version: int) -> Message:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x", v3_and_below_topics=topics
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(transactional_id="x", topics=topics)
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def write_txn_markers_request(version: int) -> Message:
    topic = write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[write_txn_markers.WritableTxnMarker(producer_id=7, topics=[topic])]
    )


def txn_offset_commit_request(version: int) -> Message:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    return txn_offset_commit.TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=[topic])


def list_offsets_request(version: int) -> Message:
    wanted = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name="t", partitions=[wanted])]
    )


def epochs_request(version: int) -> Message:
    wanted = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[wanted])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])


def delete_records_request(version: int) -> Message:
    wanted = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name="t", partitions=[wanted])]
    )


def create_partitions_request(version: int) -> Message:
    topic = create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[topic])


def reassign_request(version: int) -> Message:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def offset_delete_request(version: int) -> Message:
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name="t", partitions=[partition])
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=[topic])


def move_replica_request(version: int) -> Message:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
    directory = alter_replica_log_dirs.AlterReplicaLogDir(path="/data", topics=[topic])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[directory])


def elect_leaders_request(version: int) -> Message:
    topic = elect_leaders.TopicPartitions(topic="t", partitions=[0])
    return elect_leaders.ElectLeadersRequest(topic_partitions=[topic])


def describe_topic_request(version: int) -> Message:
    topic = describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    return describe_configs.DescribeConfigsRequest(resources=[topic])


def alter_topic_request(version: int) -> Message:
    topic = alter_configs.AlterConfigsResource(resource_type=2, resource_name="t")
    return alter_configs.AlterConfigsRequest(resources=[topic])


def change_topic_request(version: int) -> Message:
    topic = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t")
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[topic])


CASES: dict[str, Case] = {
    "produce": Case(produce_request, TOPIC_DENIED),
    "fetch": Case(fetch_request, TOPIC_DENIED),
    "list_offsets": Case(list_offsets_request, TOPIC_DENIED),
    "metadata": Case(
        lambda version: metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")]), TOPIC_DENIED
    ),
    "offset_commit": Case(offset_commit_request, GROUP_DENIED),
    "offset_fetch": Case(offset_fetch_request, GROUP_DENIED),
    "find_coordinator": Case(find_coordinator_request, GROUP_DENIED),
    "join_group": Case(join_group_request, GROUP_DENIED),
    "heartbeat": Case(lambda version: heartbeat.HeartbeatRequest(group_id="g"), GROUP_DENIED),
    "leave_group": Case(lambda version: leave_group.LeaveGroupRequest(group_id="g"), GROUP_DENIED),
    "sync_group": Case(sync_group_request, GROUP_DENIED),
    "describe_groups": Case(lambda version: describe_groups.DescribeGroupsRequest(groups=["g"]), GROUP_DENIED),
    "list_groups": Case(lambda version: list_groups.ListGroupsRequest(), None, also=((Operation.DESCRIBE, CLUSTER),)),
    "api_versions": Case(
        lambda version: api_versions.ApiVersionsRequest(
            client_software_name="test" if version >= 3 else "", client_software_version="1" if version >= 3 else ""
        ),
        None,
    ),
    "create_topics": Case(
        lambda version: create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
        ),
        TOPIC_DENIED,
        also=((Operation.CREATE, CLUSTER),),
    ),
    "delete_topics": Case(
        delete_topics_request, TOPIC_DENIED, also=((Operation.DELETE, CLUSTER), (Operation.DESCRIBE, TOPIC))
    ),
    "delete_records": Case(delete_records_request, TOPIC_DENIED),
    "init_producer_id": Case(
        lambda version: init_producer_id.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000),
        TXN_DENIED,
    ),
    "offset_for_leader_epoch": Case(epochs_request, TOPIC_DENIED, also=((Operation.CLUSTER_ACTION, CLUSTER),)),
    "add_partitions_to_txn": Case(add_partitions_request, TXN_DENIED),
    "add_offsets_to_txn": Case(
        lambda version: add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), TXN_DENIED
    ),
    "end_txn": Case(lambda version: end_txn.EndTxnRequest(transactional_id="x"), TXN_DENIED),
    "write_txn_markers": Case(write_txn_markers_request, CLUSTER_DENIED, also=((Operation.ALTER, CLUSTER),)),
    "txn_offset_commit": Case(txn_offset_commit_request, TXN_DENIED),
    "describe_configs": Case(describe_topic_request, TOPIC_DENIED),
    "alter_configs": Case(alter_topic_request, TOPIC_DENIED),
    "alter_replica_log_dirs": Case(move_replica_request, CLUSTER_DENIED),
    "describe_log_dirs": Case(
        lambda version: describe_log_dirs.DescribeLogDirsRequest(topics=None), CLUSTER_DENIED, says_so_from=3
    ),
    "create_partitions": Case(create_partitions_request, TOPIC_DENIED),
    "delete_groups": Case(lambda version: delete_groups.DeleteGroupsRequest(groups_names=["g"]), GROUP_DENIED),
    "elect_leaders": Case(elect_leaders_request, CLUSTER_DENIED),
    "incremental_alter_configs": Case(change_topic_request, TOPIC_DENIED),
    "alter_partition_reassignments": Case(reassign_request, CLUSTER_DENIED),
    "list_partition_reassignments": Case(
        lambda version: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None), CLUSTER_DENIED
    ),
    "offset_delete": Case(offset_delete_request, GROUP_DENIED),
    "describe_quorum": Case(lambda version: describe_quorum.DescribeQuorumRequest(), CLUSTER_DENIED),
    "alter_partition": Case(lambda version: alter_partition.AlterPartitionRequest(), CLUSTER_DENIED),
    "update_features": Case(lambda version: update_features.UpdateFeaturesRequest(), CLUSTER_DENIED),
    "envelope": Case(
        lambda version: envelope.EnvelopeRequest(request_data=b"", client_host_address=b""), CLUSTER_DENIED
    ),
    "describe_cluster": Case(lambda version: describe_cluster.DescribeClusterRequest(), None),
    "describe_producers": Case(
        lambda version: describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])]
        ),
        TOPIC_DENIED,
    ),
    "broker_registration": Case(lambda version: broker_registration.BrokerRegistrationRequest(), CLUSTER_DENIED),
    "broker_heartbeat": Case(lambda version: broker_heartbeat.BrokerHeartbeatRequest(), CLUSTER_DENIED),
    "unregister_broker": Case(lambda version: unregister_broker.UnregisterBrokerRequest(broker_id=1), CLUSTER_DENIED),
    "describe_transactions": Case(
        lambda version: describe_transactions.DescribeTransactionsRequest(transactional_ids=["x"]), TXN_DENIED
    ),
    "list_transactions": Case(lambda version: list_transactions.ListTransactionsRequest(), None),
    "allocate_producer_ids": Case(
        lambda version: allocate_producer_ids.AllocateProducerIdsRequest(broker_id=1), CLUSTER_DENIED
    ),
    "consumer_group_heartbeat": Case(
        lambda version: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", subscribed_topic_names=["t"]
        ),
        GROUP_DENIED,
    ),
    "consumer_group_describe": Case(
        lambda version: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"]), GROUP_DENIED
    ),
    "list_config_resources": Case(lambda version: list_config_resources.ListConfigResourcesRequest(), CLUSTER_DENIED),
    "describe_topic_partitions": Case(
        lambda version: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name="t")]
        ),
        TOPIC_DENIED,
    ),
    "add_raft_voter": Case(lambda version: add_raft_voter.AddRaftVoterRequest(voter_id=2), CLUSTER_DENIED),
    "remove_raft_voter": Case(lambda version: remove_raft_voter.RemoveRaftVoterRequest(voter_id=2), CLUSTER_DENIED),
}

PRIVATE = {"raft", "node_join", "node_statistics"}
"""Their bodies are no messages of Kafka's protocol."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Untouched:
    """A part of the node that may be called for nothing but empty lists; `known` are its other attributes."""

    def __init__(self, **known: Any) -> None:
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        async def nothing() -> list[Any]:
            return []

        def call(*arguments: Any, **options: Any) -> Any:
            assert not any(arguments), f"{name}{arguments} was called for a caller without permission"
            return nothing()

        return call


class OneGroup(Untouched):
    random_bytes = staticmethod(bytes)

    async def list_groups(self, states: Any, types: Any) -> list[tuple[str, str, str, str]]:
        return [("g", "consumer", "Stable", "classic")]


class OneTransaction(Untouched):
    async def list_transactions(self, filters: Any) -> list[tuple[str, Any]]:
        return [("x", SimpleNamespace(producer_id=7, state=SimpleNamespace(value="Ongoing")))]


class Partitions(Untouched):
    """Of one topic that is neither written nor read."""

    def find_topic(self, name: str | None, topic_id: bytes | None) -> Any:
        return {0: SimpleNamespace(topic_partition=TopicPartition("t", 0), topic="t", is_internal=False)}

    def find_partition(self, key: Any, index: int) -> None:
        return None


def closed_node(authorizer: Authorizer, **parts: Any) -> Services:
    config, metrics = BrokerConfig(), NodeMetrics()
    broker = BrokerImage(1, 0, bytes(16), (Endpoint("PLAINTEXT", "h", 1),), None, False, False, (), ())
    state = PartitionState(1, 0, 0, (1,), (1,))
    publisher = MetadataPublisher(
        MetadataImage(TopicsImage.of([TopicImage("t", TOPIC_ID, {0: state}, {})]), BrokersImage({1: broker}))
    )
    table: Any = Partitions()
    known: dict[str, Any] = {
        "node_id": 1,
        "config": config,
        "metadata": publisher,
        "authorizer": authorizer,
        "controller": Untouched(is_active=True, image=publisher.image),
        "cluster": Untouched(),
        "channel": Untouched(),
        "partitions": table,
        "producing": Producing(table, publisher, metrics, lambda: 1_000),
        "fetching": Fetching(table, config, publisher, metrics, lambda: 1_000, lambda: 1_000),
        "producer_ids": Untouched(),
        "groups": OneGroup(),
        "transactions": OneTransaction(),
        "transactional_writes": Untouched(),
        "markers": Untouched(),
    }
    return services_of(**{**known, **parts})


def error_codes(response: Any) -> Iterator[int]:
    """Every error code in a response, however deep."""
    if isinstance(response, list):
        for each in response:
            yield from error_codes(each)
    elif isinstance(response, Structure):
        for field in response.__slots__:
            if field.endswith("error_code"):
                yield getattr(response, field)
            else:
                yield from error_codes(getattr(response, field))


def names_of(response: Any) -> set[str]:
    """Texts in a response."""
    if isinstance(response, str):
        return {response}
    if isinstance(response, list):
        return set().union(*map(names_of, response)) if response else set()
    if isinstance(response, Structure):
        return set().union(*(names_of(getattr(response, field)) for field in response.__slots__))
    return set()


def expected_asks(api: Api, case: Case, version: int) -> tuple[set[Ask], set[Ask]]:
    """What has to be asked for, and what may be."""
    if api.permission is ANYBODY:
        return set(), set()
    line: Ask = (api.permission.operation, api.permission.resource_type)
    if api.handler == "add_partitions_to_txn" and version >= 4:
        line = (Operation.CLUSTER_ACTION, CLUSTER)
    return {line}, {line, *case.also}


def test_every_api_has_a_request_here() -> None:
    assert {api.handler for api in APIS} == CASES.keys() | PRIVATE


@pytest.mark.parametrize("newest", [False, True], ids=["oldest", "newest"])
@pytest.mark.parametrize("api", [api for api in APIS if api.handler not in PRIVATE], ids=lambda api: api.handler)
async def test_an_api_asks_first_and_answers_a_denial(api: Api, newest: bool) -> None:
    case = CASES[api.handler]
    version = api.max_version if newest else api.min_version
    authorizer = DeniesAll()
    response = await ask(closed_node(authorizer), case.request(version), version)
    required, allowed = expected_asks(api, case, version)
    assert required <= set(authorizer.asked) <= allowed
    expected = {case.refusal} - {None}
    if api.handler == "add_partitions_to_txn" and newest:
        expected = {CLUSTER_DENIED}
    found = set(error_codes(response)) - {0}
    assert found == (expected if version >= case.says_so_from else set())
    if case.refusal is None and api.permission is not ANYBODY:
        assert not names_of(response) & {"g", "x"}, "what the caller may not see is left out"


@pytest.mark.parametrize("version", [4, 13])
async def test_a_fetch_in_the_name_of_a_replica_asks_for_the_cluster(version: int) -> None:
    authorizer = DeniesAll()
    request = fetch_request(version)
    assert isinstance(request, fetch.FetchRequest)
    request.replica_id = 2
    response = await ask(closed_node(authorizer), request, version)
    assert authorizer.asked == [(Operation.CLUSTER_ACTION, CLUSTER)]
    assert set(error_codes(response)) - {0} == {CLUSTER_DENIED}


@pytest.mark.parametrize("version", [3, 13])
async def test_a_transactional_produce_asks_for_the_transactional_id_too(version: int) -> None:
    request = produce_request(version)
    assert isinstance(request, produce.ProduceRequest)
    request.transactional_id = "x"
    services = closed_node(Grants(*on_topic("t", Operation.WRITE)))
    assert set(error_codes(await ask(services, request, version))) == {TXN_DENIED}
    checked: list[Any] = []

    def check_produce(transactional_id: str, topics: list[Any], version: int) -> dict[TopicPartition, BrokerError]:
        checked.append(topics)
        return {}

    services = closed_node(
        Grants(*on_transactional_id("x", Operation.WRITE)),
        transactional_writes=SimpleNamespace(check_produce=check_produce),
    )
    assert set(error_codes(await ask(services, request, version))) == {TOPIC_DENIED}
    assert checked == [[]], "the topic does not become part of the transaction"


async def test_a_produce_does_not_say_whether_a_topic_exists() -> None:
    request = produce_request(3)
    assert isinstance(request, produce.ProduceRequest)
    request.topic_data[0].partition_data[0].index = 99
    assert set(error_codes(await ask(closed_node(DeniesAll()), request, 3))) == {TOPIC_DENIED}


async def test_statistics_are_reported_by_nodes_alone() -> None:
    [api] = [api for api in APIS if api.handler == "node_statistics"]
    context = context_of(closed_node(Grants(*on_cluster(Operation.DESCRIBE))), api.key, 0)
    route = context.dispatcher.find_route(api.key)
    assert route is not None
    report = {"node_id": 1, "epoch": 1, "statistics": {"disk": 1}}
    assert "error" in await context.dispatcher.complete(route, context, report)


@pytest.mark.parametrize("name", sorted(PRIVATE))
async def test_a_private_api_asks_first(name: str) -> None:
    [api] = [api for api in APIS if api.handler == name]
    authorizer = DeniesAll()
    context = context_of(closed_node(authorizer), api.key, 0)
    route = context.dispatcher.find_route(api.key)
    assert route is not None
    if name == "raft":
        with pytest.raises(BrokerError) as refused:
            await context.dispatcher.complete(route, context, b"")
        assert refused.value.code is CLUSTER_DENIED
    else:
        response = await context.dispatcher.complete(route, context, {"node_id": 1})
        assert response["code"] == CLUSTER_DENIED
    assert authorizer.asked == [(api.permission.operation, CLUSTER)]

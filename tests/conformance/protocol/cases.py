"""Requests for every API, each in every version it can be said in. Both the version test and the comparison with
Apache Kafka send them. A case names a topic of its own where it changes something, so that cases do not meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.conformance.protocol.world import (
    COMPACTED,
    TIMESTAMP_MS,
    TOPIC,
    UNKNOWN_ID,
    UNKNOWN_TOPIC,
    World,
    batch,
    make_topic,
)

from tidelog.protocol.generated.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tidelog.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.generated.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.protocol.generated.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest
from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.generated.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.protocol.generated.describe_producers import DescribeProducersRequest
from tidelog.protocol.generated.describe_producers import TopicRequest as ProducersTopic
from tidelog.protocol.generated.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.protocol.generated.describe_topic_partitions import TopicRequest as PartitionsTopic
from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.incremental_alter_configs import AlterableConfig as IncrementalConfig
from tidelog.protocol.generated.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from tidelog.protocol.generated.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest
from tidelog.protocol.generated.list_config_resources import ListConfigResourcesRequest
from tidelog.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.message import Message

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


class Case(NamedTuple):
    name: str
    build: Callable[[World, int], Message]
    versions: range
    """Those in which the request can be expressed."""
    fails: bool = False
    """An error is what is expected; which one, Apache Kafka says."""


Builder = Callable[[World, int], Message]


def produce(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1, beside: tuple[int, bytes] | None = None
) -> Builder:
    """`beside`: partition and records of a second part."""

    def build(world: World, version: int) -> Message:
        data = [PartitionProduceData(index=partition, records=records)]
        if beside is not None:
            data.append(PartitionProduceData(index=beside[0], records=beside[1]))
        if version >= 13:
            named = TopicProduceData(topic_id=world.topic_ids.get(topic, UNKNOWN_ID), partition_data=data)
        else:
            named = TopicProduceData(name=topic, partition_data=data)
        return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[named])

    return build


def fetch(topic: str, offset: int, *, partition: int = 0, max_bytes: int = 1 << 20) -> Builder:
    def build(world: World, version: int) -> Message:
        wanted = [FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)]
        if version >= 13:
            named = FetchTopic(topic_id=world.topic_ids.get(topic, UNKNOWN_ID), partitions=wanted)
        else:
            named = FetchTopic(topic=topic, partitions=wanted)
        return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[named])

    return build


def list_offsets(topic: str, timestamp: int, partition: int = 0) -> Builder:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    return lambda world, version: request


def metadata(*names: str, create: bool = False) -> Builder:
    topics = [MetadataRequestTopic(name=name) for name in names]

    def build(world: World, version: int) -> Message:
        # Before version 4 every unknown topic is created when the broker allows it, and the request cannot say no.
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < 4)

    return build


def create_topic(
    prefix: str, *, partitions: int = 1, factor: int = 1, validate_only: bool = False, **configs: str
) -> Builder:
    def build(world: World, version: int) -> Message:
        entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        name = prefix if prefix.endswith("!") or prefix == TOPIC else f"{prefix}-{version}"
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)
        return CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only)

    return build


def delete_topic(name: str) -> Builder:
    def build(world: World, version: int) -> Message:
        if version >= 6:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)

    return build


def delete_own_topic(world: World, version: int) -> Message:
    name = f"doomed-{version}"
    make_topic(world.connection, name)
    return delete_topic(name)(world, version)


def delete_records(topic: str, offset: int, partition: int = 0) -> Builder:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5000)
    return lambda world, version: request


def epoch_end(topic: str, epoch: int) -> Builder:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    return lambda world, version: request


def describe_config(resource_type: int, name: str, *keys: str) -> Builder:
    def build(world: World, version: int) -> Message:
        wanted = list(keys) if keys else None
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=wanted)
        return DescribeConfigsRequest(resources=[resource], include_synonyms=True)

    return build


def repeated_config(resource_type: int, name: str, key: str) -> Builder:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=[key])
    return always(DescribeConfigsRequest(resources=[resource, resource], include_synonyms=True))


def alter_config(name: str, **configs: str) -> Builder:
    entries = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=entries)
    return lambda world, version: AlterConfigsRequest(resources=[resource], validate_only=True)


def increment_config(name: str, key: str, value: str | None, operation: int = 0) -> Builder:
    entry = IncrementalConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[entry])
    return lambda world, version: IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def find_coordinator(key: str, key_type: int) -> Builder:
    def build(world: World, version: int) -> Message:
        if version >= 4:
            return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return FindCoordinatorRequest(key=key, key_type=key_type)

    return build


def create_partitions(topic: str, count: int) -> Builder:
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return always(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000))


def grow_own_topic(world: World, version: int) -> Message:
    name = f"growing-{version}"
    make_topic(world.connection, name)
    return create_partitions(name, 3)(world, version)


def elect_leaders(topic: str) -> Builder:
    wanted = TopicPartitions(topic=topic, partitions=[0])
    return always(ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=5000))


def move_replica(path: str) -> Builder:
    topics = [AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])]
    return always(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]))


def always(request: Message) -> Builder:
    return lambda world, version: request


PRODUCE, FETCH, LIST_OFFSETS, METADATA = range(3, 14), range(4, 19), range(1, 12), range(14)
CREATE_TOPICS, CONFIGS = range(2, 8), range(1, 5)

LATEST_TWICE = ListOffsetsRequest(
    replica_id=-1,
    topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2)],
)
CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1")
METADATA_OF_UNKNOWN_ID = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)])
DELETION_OF_UNKNOWN_ID = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UNKNOWN_ID)], timeout_ms=5000)
TOPIC_RESOURCES = ListConfigResourcesRequest(resource_types=[TOPIC_RESOURCE])

GOOD_CASES = (
    Case("produce", produce(TOPIC, batch(9), partition=1), PRODUCE),
    Case("produce-acks-1", produce(TOPIC, batch(9), partition=1, acks=1), PRODUCE),
    Case("fetch", fetch(TOPIC, 0), FETCH),
    Case("fetch-inside-a-batch", fetch(TOPIC, 4), FETCH),
    Case("fetch-at-the-end", fetch(TOPIC, 9), FETCH),
    Case("fetch-less-than-a-batch", fetch(TOPIC, 0, max_bytes=10), FETCH),
    Case("list-offsets-latest", list_offsets(TOPIC, -1), LIST_OFFSETS),
    Case("list-offsets-earliest", list_offsets(TOPIC, -2), LIST_OFFSETS),
    Case("list-offsets-by-time", list_offsets(TOPIC, TIMESTAMP_MS + 1001), LIST_OFFSETS),
    Case("list-offsets-by-future-time", list_offsets(TOPIC, TIMESTAMP_MS * 2), LIST_OFFSETS),
    Case("list-offsets-max-timestamp", list_offsets(TOPIC, -3), range(7, 12)),
    Case("list-offsets-max-timestamp-empty", list_offsets(COMPACTED, -3), range(7, 12)),
    Case("list-offsets-earliest-local", list_offsets(TOPIC, -4), range(8, 12)),
    Case("list-offsets-latest-tiered", list_offsets(TOPIC, -5), range(9, 12)),
    Case("list-offsets-earliest-pending-upload", list_offsets(TOPIC, -6), range(11, 12)),
    Case("metadata-of-a-topic", metadata(TOPIC), METADATA),
    Case("metadata-of-a-topic-twice", metadata(TOPIC, TOPIC), METADATA),
    Case("metadata-of-no-topic", always(MetadataRequest(topics=[])), range(1, 14)),
    Case("find-group-coordinator", find_coordinator("a-group", 0), range(7)),
    Case(
        "find-group-coordinator-twice",
        always(FindCoordinatorRequest(coordinator_keys=["a-group", "a-group"])),
        range(4, 7),
    ),
    Case("api-versions", always(CLIENT), range(5)),
    Case("create-topic", create_topic("made"), CREATE_TOPICS),
    Case("create-topic-validate-only", create_topic("never", validate_only=True, retention_ms="5000"), CREATE_TOPICS),
    Case("create-topic-with-defaults", create_topic("defaults", partitions=-1, factor=-1), range(4, 8)),
    Case("delete-topic", delete_own_topic, range(1, 7)),
    Case("create-partitions", grow_own_topic, range(4)),
    Case("elect-leaders-of-all", always(ElectLeadersRequest(topic_partitions=None, timeout_ms=5000)), range(3)),
    Case("delete-records-none", delete_records(TOPIC, 0), range(3)),
    Case("init-producer-id", always(InitProducerIdRequest(transactional_id=None)), range(6)),
    Case("epoch-end", epoch_end(TOPIC, 0), range(2, 5)),
    Case("epoch-end-future", epoch_end(TOPIC, 5), range(2, 5)),
    Case("describe-topic-config", describe_config(TOPIC_RESOURCE, TOPIC), CONFIGS),
    Case("describe-one-topic-config", describe_config(TOPIC_RESOURCE, TOPIC, "retention.ms"), CONFIGS),
    Case("describe-one-broker-config-twice", repeated_config(BROKER_RESOURCE, "1", "num.partitions"), CONFIGS),
    Case("describe-broker-config", describe_config(BROKER_RESOURCE, "1", "num.partitions"), CONFIGS),
    Case("alter-config", alter_config(TOPIC, retention_ms="100000"), range(3)),
    Case("increment-config", increment_config(TOPIC, "retention.ms", "100000"), range(2)),
    Case("increment-config-delete", increment_config(TOPIC, "retention.ms", None, 1), range(2)),
    Case("increment-config-append", increment_config(TOPIC, "cleanup.policy", "compact", 2), range(2)),
    Case(
        "describe-log-dirs",
        always(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0])])),
        range(1, 6),
    ),
    Case("describe-cluster", always(DescribeClusterRequest()), range(3)),
    Case(
        "describe-producers",
        always(DescribeProducersRequest(topics=[ProducersTopic(name=TOPIC, partition_indexes=[0])])),
        range(1),
    ),
    Case(
        "describe-producers-twice",
        always(DescribeProducersRequest(topics=[ProducersTopic(name=TOPIC, partition_indexes=[0, 0])])),
        range(1),
    ),
    Case(
        "describe-topic-partitions",
        always(DescribeTopicPartitionsRequest(topics=[PartitionsTopic(name=TOPIC)])),
        range(1),
    ),
    Case("list-client-metrics-resources", always(ListConfigResourcesRequest()), range(1)),
    Case("list-topic-config-resources", always(TOPIC_RESOURCES), range(1, 2)),
)

BAD_CASES = (
    Case("produce-unknown-topic", produce(UNKNOWN_TOPIC, batch(0)), PRODUCE, True),
    Case("produce-unknown-partition", produce(TOPIC, batch(0), partition=7), PRODUCE, True),
    Case("produce-wrong-acks", produce(TOPIC, batch(0), acks=2), PRODUCE, True),
    Case("produce-wrong-crc", produce(TOPIC, batch(0, crc_error=1)), PRODUCE, True),
    Case("produce-wrong-count", produce(TOPIC, batch(0, record_count=5)), PRODUCE, True),
    Case("produce-negative-count", produce(TOPIC, batch(0, record_count=-5)), PRODUCE, True),
    Case("produce-wrong-last-offset", produce(TOPIC, batch(0, last_offset_delta=9)), PRODUCE, True),
    Case("produce-too-long", produce(TOPIC, batch(0, length_error=10)), PRODUCE, True),
    Case("produce-too-short", produce(TOPIC, batch(0, length_error=-10)), PRODUCE, True),
    Case("produce-unknown-codec", produce(TOPIC, batch(0, attributes=7)), PRODUCE, True),
    Case("produce-control-batch", produce(TOPIC, batch(0, attributes=0x20)), PRODUCE, True),
    Case("produce-transactional-without-id", produce(TOPIC, batch(0, attributes=0x10)), PRODUCE, True),
    Case("produce-transactional-nowhere", produce(UNKNOWN_TOPIC, batch(0, attributes=0x10)), PRODUCE, True),
    Case("produce-transactional-wrong-crc", produce(TOPIC, batch(0, attributes=0x10, crc_error=1)), PRODUCE, True),
    Case("produce-transactional-unanswered", produce(TOPIC, batch(0, attributes=0x10), acks=0), PRODUCE, True),
    Case(
        "produce-transactional-beside",
        produce(TOPIC, batch(0), beside=(1, batch(0, attributes=0x10, producer_id=9, base_sequence=0))),
        PRODUCE,
        True,
    ),
    Case("produce-sequence-without-producer", produce(TOPIC, batch(0, base_sequence=4)), PRODUCE, True),
    Case("produce-unknown-producer-epoch", produce(TOPIC, batch(0, producer_id=77, base_sequence=4)), PRODUCE, True),
    Case("produce-magic-0", produce(TOPIC, batch(0, magic=0)), PRODUCE, True),
    Case("produce-magic-1", produce(TOPIC, batch(0, magic=1)), PRODUCE, True),
    Case("produce-magic-3", produce(TOPIC, batch(0, magic=3)), PRODUCE, True),
    Case("produce-two-batches", produce(TOPIC, batch(0) + batch(1)), PRODUCE, True),
    Case("produce-nothing", produce(TOPIC, b""), PRODUCE, True),
    Case("produce-garbage", produce(TOPIC, b"garbage" * 30), PRODUCE, True),
    Case("fetch-beyond-the-end", fetch(TOPIC, 1000), FETCH, True),
    Case("fetch-negative-offset", fetch(TOPIC, -5), FETCH, True),
    Case("fetch-unknown-topic", fetch(UNKNOWN_TOPIC, 0), FETCH, True),
    Case("fetch-unknown-partition", fetch(TOPIC, 0, partition=7), FETCH, True),
    Case("list-offsets-unknown-topic", list_offsets(UNKNOWN_TOPIC, -1), LIST_OFFSETS, True),
    Case("list-offsets-unknown-partition", list_offsets(TOPIC, -1, 7), LIST_OFFSETS, True),
    Case("list-offsets-twice", always(LATEST_TWICE), LIST_OFFSETS, True),
    Case("list-offsets-nonsense-time", list_offsets(TOPIC, -77), LIST_OFFSETS, True),
    Case("metadata-unknown-topic", metadata(UNKNOWN_TOPIC), range(4, 14), True),
    Case("metadata-wrong-name", metadata("a/b"), range(4, 14), True),
    Case("metadata-wrong-name-create", metadata("../x", create=True), range(4, 14), True),
    Case("metadata-empty-name", metadata(""), range(4, 14), True),
    Case(
        "metadata-unknown-id",
        always(MetadataRequest(topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)])),
        range(12, 14),
        True,
    ),
    Case("create-topic-again", create_topic(TOPIC), CREATE_TOPICS, True),
    Case("create-topic-wrong-name", create_topic("wrong!"), CREATE_TOPICS, True),
    Case("create-topic-no-partitions", create_topic("zero", partitions=0), CREATE_TOPICS, True),
    Case("create-topic-three-replicas", create_topic("three", factor=3), CREATE_TOPICS, True),
    Case("create-topic-wrong-config", create_topic("config", retention_ms="soon"), CREATE_TOPICS, True),
    Case("create-topic-unknown-config", create_topic("config", no_such="1"), CREATE_TOPICS, True),
    Case("create-topic-small-segment", create_topic("config", segment_bytes="10"), CREATE_TOPICS, True),
    Case("delete-unknown-topic", delete_topic(UNKNOWN_TOPIC), range(1, 7), True),
    Case(
        "delete-unknown-id",
        always(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UNKNOWN_ID)], timeout_ms=5000)),
        range(6, 7),
        True,
    ),
    Case("delete-records-out-of-range", delete_records(TOPIC, 1000), range(3), True),
    Case("delete-records-unknown-topic", delete_records(UNKNOWN_TOPIC, 0), range(3), True),
    Case("delete-records-negative", delete_records(TOPIC, -7), range(3), True),
    Case("delete-records-compacted", delete_records(COMPACTED, 0), range(3), True),
    Case("epoch-end-unknown-topic", epoch_end(UNKNOWN_TOPIC, 0), range(2, 5), True),
    Case("describe-config-unknown-topic", describe_config(TOPIC_RESOURCE, UNKNOWN_TOPIC), CONFIGS, True),
    Case("describe-config-unknown-broker", describe_config(BROKER_RESOURCE, "99"), CONFIGS, True),
    Case("describe-config-not-a-broker", describe_config(BROKER_RESOURCE, "x"), CONFIGS, True),
    Case("describe-config-unknown-type", describe_config(77, "x"), CONFIGS, True),
    Case("alter-config-unknown-topic", alter_config(UNKNOWN_TOPIC, retention_ms="1000"), range(3), True),
    Case("alter-config-wrong-value", alter_config(TOPIC, retention_ms="soon"), range(3), True),
    Case("alter-config-unknown", alter_config(TOPIC, no_such="1"), range(3), True),
    Case("increment-config-wrong-value", increment_config(TOPIC, "retention.ms", "soon"), range(2), True),
    Case("increment-config-unknown", increment_config(TOPIC, "no.such", "1"), range(2), True),
    Case("increment-config-wrong-operation", increment_config(TOPIC, "retention.ms", "1", 9), range(2), True),
    Case("increment-config-append-to-number", increment_config(TOPIC, "retention.ms", "1", 2), range(2), True),
    Case("increment-config-unknown-topic", increment_config(UNKNOWN_TOPIC, "retention.ms", "1"), range(2), True),
    Case(
        "create-partitions-fewer",
        always(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=TOPIC, count=1, assignments=None)], timeout_ms=5000
            )
        ),
        range(4),
        True,
    ),
    Case(
        "create-partitions-same",
        always(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)], timeout_ms=5000
            )
        ),
        range(4),
        True,
    ),
    Case(
        "create-partitions-unknown-topic",
        always(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=UNKNOWN_TOPIC, count=2, assignments=None)], timeout_ms=5000
            )
        ),
        range(4),
        True,
    ),
    Case("elect-leaders-not-needed", elect_leaders(TOPIC), range(3), True),
    Case(
        "elect-leaders-unknown",
        always(
            ElectLeadersRequest(
                topic_partitions=[TopicPartitions(topic=UNKNOWN_TOPIC, partitions=[0])], timeout_ms=5000
            )
        ),
        range(3),
        True,
    ),
    Case("alter-replica-log-dirs", move_replica("/elsewhere"), range(1, 3), True),
    Case(
        "describe-producers-unknown-topic",
        always(DescribeProducersRequest(topics=[ProducersTopic(name=UNKNOWN_TOPIC, partition_indexes=[0])])),
        range(1),
        True,
    ),
    Case(
        "describe-topic-partitions-unknown",
        always(DescribeTopicPartitionsRequest(topics=[PartitionsTopic(name=UNKNOWN_TOPIC)])),
        range(1),
        True,
    ),
)

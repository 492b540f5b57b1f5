"""The state that the request cases of this folder speak about, the same on every broker it is set up on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.servers.topics import LATEST, list_offset, produce_batch
from tests.servers.wire import Connection, NewRecord, build_batch
from tests.waiting import wait_until

from tidelog.protocol.generated.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

TOPIC = "orders"
COMPACTED = "latest-prices"
TIMESTAMP_MS = 1_700_000_000_000
UNKNOWN_TOPIC = "nobody-made-this"
UNKNOWN_ID = b"\x01" * 16


@dataclass(slots=True)
class World:
    """Topics with fixed content, and the ids this broker gave them."""

    port: int
    connection: Connection
    topic_ids: dict[str, bytes] = field(default_factory=dict)


def batch(number: int, *, count: int = 3, **options: int) -> bytes:
    """A batch whose bytes are the same at every call: everything in it is fixed, its timestamps too."""
    records = [
        NewRecord(b"value %d of batch %d" % (index, number), b"key %d" % index, (("source", b"test"),), index)
        for index in range(count)
    ]
    return build_batch(records, timestamp_ms=TIMESTAMP_MS + 1000 * number, **options)  # type: ignore[arg-type]


def make_topic(connection: Connection, name: str, partitions: int = 1, **configs: str) -> None:
    """Underscores in the names of configs stand for dots."""
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=entries)
    [result] = connection.call(CreateTopicsRequest(topics=[topic]), 7).topics
    assert result.error_code == 0, result
    for partition in range(partitions):
        wait_until(lambda: list_offset(connection, name, partition, LATEST)[0] == 0, f"{name} can be read")  # noqa: B023


def set_up_world(port: int) -> World:
    connection = Connection(port)
    make_topic(connection, TOPIC, partitions=2, retention_ms="-1")
    make_topic(connection, COMPACTED, cleanup_policy="compact", retention_ms="-1")
    for number in range(3):
        assert produce_batch(connection, TOPIC, batch(number)).error_code == 0
    wait_for_coordinators(connection)
    world = World(port, connection)
    learn_topic_ids(world)
    return world


def wait_for_coordinators(connection: Connection) -> None:
    """A broker may still be loading what these two need when it takes its first connection."""
    group = FindCoordinatorRequest(key_type=0, coordinator_keys=["a-group"])
    producer = InitProducerIdRequest(transactional_id=None)
    wait_until(lambda: connection.call(group, 6).coordinators[0].error_code == 0, "the group coordinator is there")
    wait_until(lambda: connection.call(producer, 5).error_code == 0, "producer ids are given out")


def learn_topic_ids(world: World) -> None:
    world.topic_ids.update(topic_ids_of(world.connection, TOPIC, COMPACTED))


def topic_ids_of(connection: Connection, *names: str) -> dict[str, bytes]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return {topic.name: topic.topic_id for topic in connection.call(MetadataRequest(topics=topics), 12).topics}

"""Administration through librdkafka's admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.conformance.confluent_kafka.client import produce
from tests.conformance.sample import samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, list_offset, new_name, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def result(futures: dict[Any, Any]) -> Any:
    [future] = futures.values()
    return future.result(30)


def error_code(action: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as failure:
        action()
    code: int = failure.value.args[0].code()
    return code


def topic_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    entries: dict[str, ConfigEntry] = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return entries


def test_a_topic_is_created_listed_described_and_deleted(admin: AdminClient) -> None:
    name = new_name("made")
    result(admin.create_topics([NewTopic(name, num_partitions=3, config={"retention.ms": "60000"})]))
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, "the topic is listed")
    description = result(admin.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in description.partitions] == [0, 1, 2]
    assert all(partition.leader is not None for partition in description.partitions)
    assert topic_configs(admin, name)["retention.ms"].value == "60000"
    result(admin.delete_topics([name]))
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, "the topic is gone")


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("a/b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("../../escape", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("unknown-config", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("wrong-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("wrong-policy", 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic[:20] if isinstance(value, NewTopic) else str(value),
)
def test_a_wrong_topic_is_refused(admin: AdminClient, topic: NewTopic, code: int) -> None:
    assert error_code(lambda: result(admin.create_topics([topic]))) == code


def test_a_topic_cannot_be_created_twice(admin: AdminClient, connection: Connection) -> None:
    name = create_topic(connection)
    assert error_code(lambda: result(admin.create_topics([NewTopic(name, 1, 1)]))) == KafkaError.TOPIC_ALREADY_EXISTS


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    name = new_name("only-validated")
    result(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=10).topics


def test_deleting_an_unknown_topic_is_an_error(admin: AdminClient) -> None:
    code = error_code(lambda: result(admin.delete_topics([new_name("unknown")])))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_made_again_under_its_name_is_empty(
    admin: AdminClient, broker: BrokerProcess, connection: Connection
) -> None:
    name = create_topic(connection)
    produce(broker.bootstrap, name, samples("first life"))
    result(admin.delete_topics([name]))
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, "the topic is gone")

    def created() -> bool:
        try:
            result(admin.create_topics([NewTopic(name, 1, 1)]))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(created, "the name can be used again")
    wait_until(lambda: list_offset(connection, name, 0, -1) == (0, -1, 0), "the new topic is empty")


def test_partitions_are_added_and_never_taken_away(
    admin: AdminClient, broker: BrokerProcess, connection: Connection
) -> None:
    name = create_topic(connection)
    result(admin.create_partitions([NewPartitions(name, 4)]))
    wait_until(lambda: list_offset(connection, name, 3, -1)[0] == 0, "the new partition can be read")
    assert produce_values(connection, name, b"x", partition=3) == 0
    for count in (4, 2):
        code = error_code(lambda count=count: result(admin.create_partitions([NewPartitions(name, count)])))  # type: ignore[misc]
        assert code == KafkaError.INVALID_PARTITIONS
    code = error_code(lambda: result(admin.create_partitions([NewPartitions(new_name("unknown"), 4)])))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs_are_set_and_unset_one_by_one(admin: AdminClient, connection: Connection) -> None:
    name = create_topic(connection, configs={"retention.ms": "60000"})

    def alter(*changes: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(changes))
        result(admin.incremental_alter_configs([resource]))

    alter(ConfigEntry("segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET))
    wait_until(lambda: topic_configs(admin, name)["segment.bytes"].value == "2000000", "the config is set")
    assert topic_configs(admin, name)["retention.ms"].value == "60000"
    alter(ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE))
    wait_until(lambda: topic_configs(admin, name)["retention.ms"].value == "604800000", "the default is back")
    assert topic_configs(admin, name)["retention.ms"].is_default
    alter(ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND))
    wait_until(lambda: topic_configs(admin, name)["cleanup.policy"].value == "delete,compact", "a value is appended")
    alter(ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))
    wait_until(lambda: topic_configs(admin, name)["cleanup.policy"].value == "compact", "a value is subtracted")
    for wrong in (ConfigEntry("retention.ms", "soon"), ConfigEntry("no.such", "1")):
        wrong.incremental_operation = AlterConfigOpType.SET
        assert error_code(lambda wrong=wrong: alter(wrong)) == KafkaError.INVALID_CONFIG  # type: ignore[misc]


def test_altering_all_configs_replaces_those_not_named(admin: AdminClient, connection: Connection) -> None:
    name = create_topic(connection, configs={"retention.ms": "60000"})
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.bytes": "3000000"})
    with pytest.warns(DeprecationWarning, match="incremental"):
        futures = admin.alter_configs([resource])
    result(futures)
    wait_until(lambda: topic_configs(admin, name)["segment.bytes"].value == "3000000", "the config is set")
    assert topic_configs(admin, name)["retention.ms"].is_default


def test_a_changed_limit_holds_for_the_next_record(admin: AdminClient, connection: Connection) -> None:
    name = create_topic(connection)
    entry = ConfigEntry("max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET)
    result(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]))

    def refused() -> bool:
        try:
            produce_values(connection, name, b"v" * 1000)
        except AssertionError:
            return True
        return False

    wait_until(refused, "a record over the new limit is refused")


def test_broker_configs_are_described(admin: AdminClient) -> None:
    node = next(iter(admin.list_topics(timeout=10).brokers))
    entries = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
    assert entries["num.partitions"].value == "1"
    assert entries["auto.create.topics.enable"].value == "true"


def test_configs_of_an_unknown_topic(admin: AdminClient) -> None:
    code = error_code(lambda: topic_configs(admin, new_name("unknown")))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_records_before_an_offset_are_deleted(admin: AdminClient, connection: Connection) -> None:
    name = create_topic(connection)
    produce_values(connection, name, *[b"x"] * 10)
    deleted = result(admin.delete_records([TopicPartition(name, 0, 4)]))
    assert deleted.low_watermark == 4
    assert list_offset(connection, name, 0, -2)[2] == 4
    code = error_code(lambda: result(admin.delete_records([TopicPartition(name, 0, 1000)])))
    assert code == KafkaError.OFFSET_OUT_OF_RANGE


def test_the_cluster_is_described(admin: AdminClient, broker: BrokerProcess) -> None:
    cluster = admin.describe_cluster().result(30)
    [node] = cluster.nodes
    assert (node.host, node.port) == ("127.0.0.1", broker.port)
    assert cluster.controller.id == node.id
    assert cluster.cluster_id == admin.list_topics(timeout=10).cluster_id


def test_offsets_are_listed(admin: AdminClient, broker: BrokerProcess, connection: Connection) -> None:
    name = create_topic(connection)
    produce(broker.bootstrap, name, samples("offsets"))

    def listed(spec: OffsetSpec) -> int:
        futures = admin.list_offsets({TopicPartition(name, 0): spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        offset: int = result(futures).offset
        return offset

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == len(samples("offsets"))
    assert listed(OffsetSpec.for_timestamp(0)) == 0
    assert 0 <= listed(OffsetSpec.max_timestamp()) < len(samples("offsets"))

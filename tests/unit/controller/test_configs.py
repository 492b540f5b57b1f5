"""Decisions about settings, with the errors and words Apache Kafka 4.3.1 gave to the same requests."""

import pytest
from tests.unit.controller.test_topics import create
from tests.unit.metadata.images import cluster, replayed

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigChange,
    ResourceChange,
    decide_alter_configs,
)
from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import ErrorCode

TOPIC, BROKER, GROUP = 2, 4, 32


def image_with_topic() -> MetadataImage:
    return create(cluster(), NewTopic("t", configs=[("segment.ms", "100"), ("retention.ms", "1")]))[0]


def alter(
    image: MetadataImage, *changes: ConfigChange, kind: int = TOPIC, name: str = "t", replace: bool = False
) -> tuple[MetadataImage, tuple[ErrorCode, str] | None]:
    decision = decide_alter_configs(image, BrokerConfig(node_id=1), [ResourceChange(kind, name, changes, replace)])
    [outcome] = decision.reply
    if outcome.error is not None:
        assert decision.records == []
        return image, (outcome.error.code, outcome.error.message)
    return replayed(image, decision.records)[0], None


def test_single_settings_change_and_the_rest_stays() -> None:
    image, error = alter(
        image_with_topic(), ConfigChange("retention.ms", SET, "5"), ConfigChange("segment.ms", DELETE, None)
    )
    assert error is None
    assert image.topics["t"].config == {"retention.ms": "5"}


def test_a_whole_set_replaces_what_was_there() -> None:
    image, _ = alter(image_with_topic(), ConfigChange("flush.ms", SET, "5"), replace=True)
    assert image.topics["t"].config == {"flush.ms": "5"}


def test_what_is_the_same_already_is_not_written() -> None:
    resource = ResourceChange(TOPIC, "t", [ConfigChange("retention.ms", SET, "1"), ConfigChange("foo", DELETE, None)])
    assert decide_alter_configs(image_with_topic(), BrokerConfig(), [resource]).records == []


def test_lists_grow_and_shrink_from_the_default() -> None:
    image = image_with_topic()
    for operation, given, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "delete,compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "bogus", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        image, error = alter(image, ConfigChange("cleanup.policy", operation, given))
        assert error is None
        assert image.topics["t"].config["cleanup.policy"] == expected


def test_only_validated() -> None:
    resource = ResourceChange(TOPIC, "t", [ConfigChange("retention.ms", SET, "7")])
    decision = decide_alter_configs(image_with_topic(), BrokerConfig(), [resource], validate_only=True)
    assert decision.records == []
    assert decision.reply[0].error is None


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("foo", SET, "x")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (
            [("retention.ms", APPEND, "5")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            [("retention.ms", DELETE, None), ("segment.ms", SET, "0")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
        ([("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST, "Unknown config operation 9"),
        ([("cleanup.policy", APPEND, "x")], ErrorCode.INVALID_CONFIG,
         "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"),
    ],
)  # fmt: skip
def test_changes_of_a_topic_that_cannot_be(
    changes: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    assert alter(image_with_topic(), *(ConfigChange(*change) for change in changes))[1] == (code, message)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'x' does not exist."),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (BROKER, "9", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 9"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        (3, "1", ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
        (99, "1", ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_resources_that_are_not_there(kind: int, name: str, code: ErrorCode, message: str) -> None:
    change = ConfigChange("retention.ms", SET, "5")
    assert alter(image_with_topic(), change, kind=kind, name=name)[1] == (code, message)


def test_settings_of_a_group_are_its_own() -> None:
    image, error = alter(cluster(), ConfigChange("consumer.session.timeout.ms", SET, "50000"), kind=GROUP, name="g")
    assert error is None
    assert image.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    image, error = alter(image, ConfigChange("consumer.session.timeout.ms", DELETE, None), kind=GROUP, name="g")
    assert error is None
    assert image.group_configs == {}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nope", "1", "Unknown group config name: nope"),
        (
            "consumer.session.timeout.ms",
            "x",
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            "consumer.session.timeout.ms",
            "1000",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "55000",
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            "consumer.assignment.interval.ms",
            "20000",
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
    ],
)
def test_what_a_group_may_not_set(name: str, value: str, message: str) -> None:
    _, error = alter(cluster(), ConfigChange(name, SET, value), kind=GROUP, name="g")
    assert error == (ErrorCode.INVALID_CONFIG, message)


def test_a_group_is_not_silent_for_longer_than_its_session() -> None:
    wide = BrokerConfig(node_id=1, group_consumer_max_heartbeat_interval_ms=60_000)
    resource = ResourceChange(GROUP, "g", [ConfigChange("consumer.heartbeat.interval.ms", SET, "45000")])
    [outcome] = decide_alter_configs(cluster(), wide, [resource]).reply
    assert outcome.error is not None
    assert "consumer.session.timeout.ms must be greater than" in outcome.error.message


def test_a_resource_named_twice() -> None:
    resource = ResourceChange(TOPIC, "t", [ConfigChange("retention.ms", SET, "5")])
    decision = decide_alter_configs(image_with_topic(), BrokerConfig(), [resource, resource])
    assert [o.error and o.error.message for o in decision.reply] == ["Each resource must appear at most once."] * 2
    assert decision.records == []


def test_settings_of_brokers() -> None:
    image, error = alter(image_with_topic(), ConfigChange("log.retention.ms", SET, "70000"), kind=BROKER, name="")
    assert error is None
    image, error = alter(image, ConfigChange("log.retention.ms", SET, "60000"), kind=BROKER, name="1")
    assert error is None
    assert image.broker_configs == {"": {"log.retention.ms": "70000"}, "1": {"log.retention.ms": "60000"}}
    effective = image.broker_config(BrokerConfig(node_id=1))
    assert effective.topic_defaults.retention_ms == 60_000
    assert image.topics["t"].effective_config(effective).retention_ms == 1
    image, _ = alter(image, ConfigChange("log.retention.ms", DELETE, None), kind=BROKER, name="1")
    assert image.broker_config(BrokerConfig(node_id=1)).topic_defaults.retention_ms == 70_000


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("num.partitions", "5", ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [num.partitions]"),
        ("foo", "5", ErrorCode.INVALID_CONFIG, "Unknown broker config name: foo"),
        (
            "log.retention.ms",
            "x",
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_changes_of_a_broker_that_cannot_be(name: str, value: str, code: ErrorCode, message: str) -> None:
    change = ConfigChange(name, SET, value)
    assert alter(image_with_topic(), change, kind=BROKER, name="1")[1] == (code, message)

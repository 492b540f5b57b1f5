"""Topic settings: Kafka's defaults, overrides on top of a broker, and what is refused."""

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.setting import ConfigError
from tidelog.config.topic import TopicConfig

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""As Apache Kafka 4.3.1 describes a new topic; its tiered storage settings are not served here."""

OURS = {"tidelog.flush": "os", "tidelog.validate.records": "false"}


def test_defaults_are_kafkas() -> None:
    shown = {name: TopicConfig().value_text(name) for name, s in TopicConfig.SETTINGS.items() if not s.internal}
    assert shown == KAFKA_DEFAULTS | OURS


def test_the_defaults_of_a_topic_and_of_its_broker_agree() -> None:
    assert BrokerConfig().topic_defaults == TopicConfig()


def test_every_synonym_is_a_broker_setting() -> None:
    names = {name for setting in TopicConfig.SETTINGS.values() for name in setting.synonyms}
    assert names <= BrokerConfig.SETTINGS.keys()


def test_overrides_stand_above_the_broker() -> None:
    broker = BrokerConfig.from_mapping({"log.retention.hours": "1", "log.segment.bytes": "2000000"})
    config = TopicConfig.from_overrides({"segment.bytes": "3000000", "cleanup.policy": "compact,delete"}, broker)
    assert config.retention_ms == 3_600_000
    assert config.segment_bytes == 3_000_000
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted
    assert config.is_deleted_by_retention


def test_topics_without_overrides_share_one_object() -> None:
    broker = BrokerConfig()
    assert TopicConfig.from_overrides({}, broker) is TopicConfig.from_overrides({}, broker)


def test_tests_may_have_tiny_segments() -> None:
    assert TopicConfig.from_overrides({"internal.segment.bytes": "100"}, BrokerConfig()).segment_bytes == 100
    with pytest.raises(ConfigError, match="at least 1048576"):
        TopicConfig.from_overrides({"segment.bytes": "100"}, BrokerConfig())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"cleanup.policy": "delete,bogus"},
            "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"leader.replication.throttled.replicas": "1:x"},
            "Invalid value 1:x for configuration leader.replication.throttled.replicas: must be the literal '*' or a "
            "list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_wrong_overrides_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        TopicConfig.from_overrides(overrides, BrokerConfig())
    assert str(error.value) == message


@pytest.mark.parametrize("value", ["", "*", "0:1", "0:1,3:2"])
def test_throttled_replicas(value: str) -> None:
    assert TopicConfig.from_overrides({"leader.replication.throttled.replicas": value}, BrokerConfig())

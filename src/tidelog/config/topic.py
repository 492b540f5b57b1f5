"""The settings of a topic, by Kafka's names and with Kafka's defaults, and two of our own (`tidelog.*`).

A topic keeps only what was set on it (its overrides, as text); everything else comes from the broker settings that
are the defaults of all topics. `TopicConfig.from_overrides` checks the overrides and joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.config.lowered import check_lowered
from tidelog.config.setting import (
    INT64_MAX,
    ConfigError,
    Settings,
    boolean,
    double,
    int32,
    int64,
    text,
    word_list,
    word_set,
)

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = ("compact", "delete")
FLUSH_POLICIES = ("os", "ack")


def check_gzip_level(level: int) -> str | None:
    if level == -1 or 1 <= level <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


def check_throttled_replicas(replicas: tuple[str, ...]) -> str | None:
    def is_pair(item: str) -> bool:
        partition, colon, node = item.partition(":")
        return bool(colon) and partition.isdigit() and node.isdigit()

    if not replicas or replicas == ("*",) or all(is_pair(item) for item in replicas):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


class TopicConfig(Settings):
    """All settings of one topic. Without arguments: Kafka's defaults."""

    cleanup_policy: frozenset[str] = word_set(
        default=frozenset({"delete"}),
        choices=CLEANUP_POLICIES,
        synonyms=("log.cleanup.policy",),
        doc="What happens to old segments: `delete` drops them by age and size, `compact` keeps the last record of "
        "each key. Both may be given; an empty list keeps everything.",
    )
    compression_gzip_level: int = int32(
        default=-1,
        check=check_gzip_level,
        synonyms=("compression.gzip.level",),
        doc="The gzip level (1 to 9, -1 for the default) when `compression.type` is gzip.",
    )
    compression_lz4_level: int = int32(
        default=9,
        minimum=1,
        maximum=17,
        synonyms=("compression.lz4.level",),
        doc="The lz4 level when `compression.type` is lz4.",
    )
    compression_zstd_level: int = int32(
        default=3,
        minimum=-131072,
        maximum=22,
        synonyms=("compression.zstd.level",),
        doc="The zstd level when `compression.type` is zstd.",
    )
    compression_type: str = text(
        default="producer",
        choices=COMPRESSION_TYPES,
        synonyms=("compression.type",),
        doc="The codec batches are stored in; `producer` keeps the bytes as the producer sent them.",
    )
    delete_retention_ms: int = int64(
        default=86_400_000,
        minimum=0,
        synonyms=("log.cleaner.delete.retention.ms",),
        doc="How long tombstones and transaction markers outlive compaction, so that slow readers still see them.",
    )
    file_delete_delay_ms: int = int64(
        default=60_000,
        minimum=0,
        synonyms=("log.segment.delete.delay.ms",),
        doc="How long the files of dropped segments and deleted topics stay on disk; "
        "less when the disk is full. The wait is not needed: readers hold open what they read.",
    )
    flush_messages: int = int64(
        default=INT64_MAX,
        minimum=1,
        synonyms=("log.flush.interval.messages",),
        doc="fsync after this many records; the default leaves writing back to the operating system.",
    )
    flush_ms: int = int64(
        default=INT64_MAX,
        minimum=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="fsync when the oldest unsynced record is this old.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = word_list(
        default=(),
        check=check_throttled_replicas,
        doc="Replicas whose replication is throttled on the follower: `*` or partition:node pairs.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = word_list(
        default=(),
        check=check_throttled_replicas,
        doc="Replicas whose replication is throttled on the leader: `*` or partition:node pairs.",
    )
    index_interval_bytes: int = int32(
        default=4096,
        minimum=0,
        synonyms=("log.index.interval.bytes",),
        doc="Bytes of log between two entries of the offset index; smaller finds faster and takes more space.",
    )
    max_compaction_lag_ms: int = int64(
        default=INT64_MAX,
        minimum=1,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="The longest a record may stay uncompacted, whatever the dirty ratio says.",
    )
    max_message_bytes: int = int32(
        default=1_048_588,
        minimum=0,
        synonyms=("message.max.bytes",),
        doc="The largest record batch the topic takes, after compression.",
    )
    message_timestamp_after_max_ms: int = int64(
        default=3_600_000,
        minimum=0,
        synonyms=("log.message.timestamp.after.max.ms",),
        doc="How far ahead of the broker's clock the timestamp of a record may be (CreateTime only).",
    )
    message_timestamp_before_max_ms: int = int64(
        default=INT64_MAX,
        minimum=0,
        synonyms=("log.message.timestamp.before.max.ms",),
        doc="How far behind the broker's clock the timestamp of a record may be (CreateTime only).",
    )
    message_timestamp_type: str = text(
        default="CreateTime",
        choices=TIMESTAMP_TYPES,
        synonyms=("log.message.timestamp.type",),
        doc="Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime).",
    )
    min_cleanable_dirty_ratio: float = double(
        default=0.5,
        minimum=0,
        maximum=1,
        synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="The share of uncompacted bytes from which a log is worth compacting.",
    )
    min_compaction_lag_ms: int = int64(
        default=0,
        minimum=0,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="The shortest time a record stays uncompacted.",
    )
    min_insync_replicas: int = int32(
        default=1,
        minimum=1,
        synonyms=("min.insync.replicas",),
        doc="Replicas that must be in sync for acks=all to be accepted.",
    )
    preallocate: bool = boolean(
        default=False,
        synonyms=("log.preallocate",),
        doc="Whether the file of a new segment is given its full size at once.",
    )
    retention_bytes: int = int64(
        default=-1,
        synonyms=("log.retention.bytes",),
        doc="How large a partition may grow before its oldest segments are dropped; -1 for no bound.",
    )
    retention_ms: int = int64(
        default=604_800_000,
        minimum=-1,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="How long records are kept; -1 for ever.",
    )
    segment_bytes: int = int32(
        default=1_073_741_824,
        minimum=1_048_576,
        synonyms=("log.segment.bytes",),
        doc="The size at which the log goes on in a new segment file.",
    )
    segment_index_bytes: int = int32(
        default=10_485_760,
        minimum=4,
        synonyms=("log.index.size.max.bytes",),
        doc="The largest an index file may become; a full index starts a new segment.",
    )
    segment_jitter_ms: int = int64(
        default=0,
        minimum=0,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        doc="The most that is taken off `segment.ms` at random, so that not all logs roll at once.",
    )
    segment_ms: int = int64(
        default=604_800_000,
        minimum=1,
        synonyms=("log.roll.ms", "log.roll.hours"),
        doc="The age at which the log goes on in a new segment file even if it is not full.",
    )
    unclean_leader_election_enable: bool = boolean(
        default=False,
        synonyms=("unclean.leader.election.enable",),
        doc="Whether a replica that is not in sync may lead when no other is left, losing what it lacks.",
    )
    tidelog_flush: str = text(
        default="os",
        choices=FLUSH_POLICIES,
        synonyms=("tidelog.flush",),
        doc="When acknowledged records are on disk: `os` leaves it to the operating system and the flush settings, "
        "`ack` syncs (many producers in one fsync) before acks=all is answered and before readers see the records.",
    )
    tidelog_validate_records: bool = boolean(
        default=False,
        synonyms=("tidelog.validate.records",),
        doc="Whether every record of a produced batch is parsed before it is taken, not only the batch header.",
    )
    tidelog_lowered_by_drain: str = text(
        default="",
        check=check_lowered,
        internal=True,
        doc="The replicas the topic had before nodes were drained, and which nodes; only the controller sets it.",
    )
    internal_segment_bytes: int | None = int32(
        default=None,  # type: ignore[arg-type]
        minimum=1,
        internal=True,
        doc="Segment size below what `segment.bytes` allows; for tests.",
    )

    def _derive(self, given: dict[str, Any]) -> None:
        if self.internal_segment_bytes is not None:
            self.__dict__["segment_bytes"] = self.internal_segment_bytes

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def segment_age_max_ms(self) -> int:
        """Only closed segments are compacted: one that may not wait for that longer is closed earlier."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        """The settings of a topic with these overrides on this broker; ConfigError when an override is wrong."""
        if not overrides:
            return broker.topic_defaults
        values = cls.parse_values(overrides, what="topic config")
        config = broker.topic_defaults.replaced(**values)
        config.check_together()
        return config

    def check_together(self) -> None:
        """The rules that bind two settings."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({self.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )

    @classmethod
    def from_broker(cls, broker: BrokerConfig) -> TopicConfig:
        """What a topic without overrides has on this broker."""
        values: dict[str, Any] = {}
        for setting in cls.SETTINGS.values():
            found = broker.first_synonym(setting.synonyms)
            if found is not None:
                values[setting.attribute] = found
        return cls(**values)

"""Section `storage`: the data directory, and what all topics have unless they say otherwise."""

from __future__ import annotations

from tidelog.config.setting import (
    INT64_MAX,
    Settings,
    boolean,
    double,
    int32,
    int64,
    optional_int32,
    optional_int64,
    text,
    word_list,
    word_set,
)
from tidelog.config.topic import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    FLUSH_POLICIES,
    TIMESTAMP_TYPES,
    check_gzip_level,
)


def check_directory(value: str) -> str | None:
    if not value:
        return "a directory must be named"
    if "," in value:
        return "one directory only: a node keeps its data in one place"
    return None


class StorageSection(Settings, section="storage"):
    log_dirs: str = text(
        default="tidelog-data", check=check_directory, doc="The data directory of the node; created when missing."
    )
    cordoned_log_dirs: tuple[str, ...] = word_list(
        default=(),
        dynamic=True,
        doc="The data directory, or * for it: no new replicas come to this node. Set at run time, per node.",
    )
    log_cleanup_policy: frozenset[str] = word_set(
        default=frozenset({"delete"}), choices=CLEANUP_POLICIES, dynamic=True, doc="Default of `cleanup.policy`."
    )
    log_retention_ms: int | None = optional_int64(
        minimum=-1, dynamic=True, doc="Default of `retention.ms`; before `log.retention.minutes`."
    )
    log_retention_minutes: int | None = optional_int32(
        minimum=-1, doc="Default of `retention.ms` in minutes; before `log.retention.hours`."
    )
    log_retention_hours: int = int32(default=168, minimum=-1, doc="Default of `retention.ms` in hours.")
    log_retention_bytes: int = int64(default=-1, dynamic=True, doc="Default of `retention.bytes`.")
    log_retention_check_interval_ms: int = int64(
        default=300_000, minimum=1, doc="How often logs are checked for segments that retention drops."
    )
    log_segment_bytes: int = int32(
        default=1_073_741_824, minimum=1_048_576, dynamic=True, doc="Default of `segment.bytes`."
    )
    log_segment_delete_delay_ms: int = int64(
        default=60_000, minimum=0, dynamic=True, doc="Default of `file.delete.delay.ms`."
    )
    log_roll_ms: int | None = optional_int64(
        minimum=1, dynamic=True, doc="Default of `segment.ms`; before `log.roll.hours`."
    )
    log_roll_hours: int = int32(default=168, minimum=1, doc="Default of `segment.ms` in hours.")
    log_roll_jitter_ms: int | None = optional_int64(
        minimum=0, dynamic=True, doc="Default of `segment.jitter.ms`; before `log.roll.jitter.hours`."
    )
    log_roll_jitter_hours: int = int32(default=0, minimum=0, doc="Default of `segment.jitter.ms` in hours.")
    log_index_interval_bytes: int = int32(
        default=4096, minimum=0, dynamic=True, doc="Default of `index.interval.bytes`."
    )
    log_index_size_max_bytes: int = int32(
        default=10_485_760, minimum=4, dynamic=True, doc="Default of `segment.index.bytes`."
    )
    log_preallocate: bool = boolean(default=False, dynamic=True, doc="Default of `preallocate`.")
    log_flush_interval_messages: int = int64(
        default=INT64_MAX, minimum=1, dynamic=True, doc="Default of `flush.messages`."
    )
    log_flush_interval_ms: int | None = optional_int64(
        minimum=0, dynamic=True, doc="Default of `flush.ms`; `log.flush.scheduler.interval.ms` when nothing is given."
    )
    log_flush_scheduler_interval_ms: int = int64(
        default=INT64_MAX, minimum=1, doc="How often logs are checked for records that `flush.ms` wants on disk."
    )
    log_flush_offset_checkpoint_interval_ms: int = int32(
        default=60_000, minimum=0, doc="How often recovery points are written; recovery starts from the last one."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = int32(
        default=60_000, minimum=0, doc="How often log start offsets are written."
    )
    log_message_timestamp_type: str = text(
        default="CreateTime", choices=TIMESTAMP_TYPES, dynamic=True, doc="Default of `message.timestamp.type`."
    )
    log_message_timestamp_before_max_ms: int = int64(
        default=INT64_MAX, minimum=0, dynamic=True, doc="Default of `message.timestamp.before.max.ms`."
    )
    log_message_timestamp_after_max_ms: int = int64(
        default=3_600_000, minimum=0, dynamic=True, doc="Default of `message.timestamp.after.max.ms`."
    )
    message_max_bytes: int = int32(default=1_048_588, minimum=0, dynamic=True, doc="Default of `max.message.bytes`.")
    compression_type: str = text(
        default="producer", choices=COMPRESSION_TYPES, dynamic=True, doc="Default of the topic setting of this name."
    )
    compression_gzip_level: int = int32(
        default=-1, check=check_gzip_level, dynamic=True, doc="Default of the topic setting of this name."
    )
    compression_lz4_level: int = int32(
        default=9, minimum=1, maximum=17, dynamic=True, doc="Default of the topic setting of this name."
    )
    compression_zstd_level: int = int32(
        default=3, minimum=-131072, maximum=22, dynamic=True, doc="Default of the topic setting of this name."
    )
    log_cleaner_enable: bool = boolean(default=True, doc="Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = int64(
        default=15_000, minimum=0, doc="How long the cleaner rests when nothing is worth compacting."
    )
    log_cleaner_threads: int = int32(default=1, minimum=0, doc="Logs compacted at the same time.")
    log_cleaner_dedupe_buffer_size: int = int64(
        default=134_217_728, minimum=1, doc="Bytes for the map of keys that one compaction builds."
    )
    log_cleaner_io_buffer_size: int = int32(
        default=524_288, minimum=0, doc="Bytes the cleaner reads and writes at a time."
    )
    log_cleaner_io_buffer_load_factor: float = double(
        default=0.9, minimum=0, maximum=1, doc="How full the map of keys may become."
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        default=1.7976931348623157e308, minimum=0, doc="What the cleaner may read and write per second."
    )
    log_cleaner_delete_retention_ms: int = int64(
        default=86_400_000, minimum=0, dynamic=True, doc="Default of `delete.retention.ms`."
    )
    log_cleaner_min_cleanable_ratio: float = double(
        default=0.5, minimum=0, maximum=1, dynamic=True, doc="Default of `min.cleanable.dirty.ratio`."
    )
    log_cleaner_min_compaction_lag_ms: int = int64(
        default=0, minimum=0, dynamic=True, doc="Default of `min.compaction.lag.ms`."
    )
    log_cleaner_max_compaction_lag_ms: int = int64(
        default=INT64_MAX, minimum=1, dynamic=True, doc="Default of `max.compaction.lag.ms`."
    )
    num_recovery_threads_per_data_dir: int = int32(
        default=2, minimum=1, doc="Logs recovered at the same time after an unclean stop."
    )
    producer_id_expiration_ms: int = int32(
        default=86_400_000, minimum=1, doc="How long the last sequence numbers of a silent producer are remembered."
    )
    metadata_log_segment_bytes: int = int32(default=1_073_741_824, minimum=12, doc="Segment size of the metadata log.")
    metadata_log_max_record_bytes_between_snapshots: int = int64(
        default=20_971_520, minimum=1, doc="Bytes the metadata log grows by before a snapshot of it is written."
    )
    metadata_log_max_snapshot_interval_ms: int = int64(
        default=3_600_000,
        minimum=0,
        doc="The longest time between a change of the metadata and a snapshot; 0 for none.",
    )
    tidelog_flush: str = text(
        default="os", choices=FLUSH_POLICIES, dynamic=True, doc="Default of the topic setting of this name."
    )
    tidelog_validate_records: bool = boolean(
        default=False, dynamic=True, doc="Default of the topic setting of this name."
    )

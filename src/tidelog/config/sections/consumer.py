"""Sections `consumer` and `log`: consumer groups with their offsets, and what the node writes about itself."""

from __future__ import annotations

from tidelog.config.setting import INT32_MAX, Settings, int32, int64, text, word_list


class ConsumerSection(Settings, section="consumer"):
    group_initial_rebalance_delay_ms: int = int32(
        default=3000, minimum=0, doc="How long a new group waits for further members before its first rebalance."
    )
    group_min_session_timeout_ms: int = int32(
        default=6000, minimum=1, doc="The shortest session timeout a classic member may ask for."
    )
    group_max_session_timeout_ms: int = int32(
        default=1_800_000, minimum=1, doc="The longest session timeout a classic member may ask for."
    )
    group_max_size: int = int32(default=INT32_MAX, minimum=1, doc="Members a classic group may have.")
    group_coordinator_rebalance_protocols: tuple[str, ...] = word_list(
        default=("classic", "consumer"),
        choices=("classic", "consumer", "share", "streams"),
        doc="The group protocols this node speaks.",
    )
    group_consumer_session_timeout_ms: int = int32(
        default=45_000, minimum=1, doc="How long a member of a consumer group may be silent."
    )
    group_consumer_min_session_timeout_ms: int = int32(
        default=45_000, minimum=1, doc="The least a group may set its session timeout to."
    )
    group_consumer_max_session_timeout_ms: int = int32(
        default=60_000, minimum=1, doc="The most a group may set its session timeout to."
    )
    group_consumer_heartbeat_interval_ms: int = int32(
        default=5000, minimum=1, doc="The heartbeat interval that members of consumer groups are given."
    )
    group_consumer_min_heartbeat_interval_ms: int = int32(
        default=5000, minimum=1, doc="The least a group may set its heartbeat interval to."
    )
    group_consumer_max_heartbeat_interval_ms: int = int32(
        default=15_000, minimum=1, doc="The most a group may set its heartbeat interval to."
    )
    group_consumer_assignment_interval_ms: int = int32(
        default=1000,
        minimum=0,
        doc="The least time between two assignments of a consumer group while members come and go; small groups wait "
        "a quarter of a millisecond for each member, if that is less.",
    )
    group_consumer_min_assignment_interval_ms: int = int32(
        default=0, minimum=0, doc="The least a group may set its assignment interval to."
    )
    group_consumer_max_assignment_interval_ms: int = int32(
        default=15_000, minimum=0, doc="The most a group may set its assignment interval to."
    )
    group_consumer_max_size: int = int32(default=INT32_MAX, minimum=1, doc="Members a consumer group may have.")
    group_consumer_assignors: tuple[str, ...] = word_list(
        default=("uniform", "range"),
        choices=("uniform", "range"),
        doc="Server-side assignors; the first is used when a member names none.",
    )
    group_consumer_migration_policy: str = text(
        default="bidirectional",
        choices=("disabled", "downgrade", "upgrade", "bidirectional"),
        doc="In which directions a group may move between the classic and the consumer protocol.",
    )
    offset_metadata_max_bytes: int = int32(
        default=4096, minimum=0, doc="The longest text that may be stored with a committed offset."
    )
    offsets_commit_timeout_ms: int = int32(
        default=5000, minimum=1, doc="How long an offset commit may wait for the offsets topic."
    )
    offsets_load_buffer_size: int = int32(
        default=5_242_880, minimum=1, doc="Bytes read at a time when offsets are loaded."
    )
    offsets_retention_minutes: int = int32(
        default=10_080, minimum=1, doc="How long the offsets of an empty group are kept."
    )
    offsets_retention_check_interval_ms: int = int64(
        default=600_000, minimum=1, doc="How often offsets are checked for expiry."
    )
    offsets_topic_num_partitions: int = int32(
        default=50, minimum=1, doc="Partitions of the offsets topic; fixed once the topic exists."
    )
    offsets_topic_segment_bytes: int = int32(default=104_857_600, minimum=1, doc="Segment size of the offsets topic.")
    offsets_topic_compression_codec: int = int32(
        default=0, minimum=0, maximum=4, doc="Codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )


class LogSection(Settings, section="log"):
    tidelog_log_format: str = text(
        default="human", choices=("human", "json"), doc="Whether the node's own log is for people or for programs."
    )
    tidelog_log_level: str = text(
        default="info",
        choices=("debug", "info", "warning", "error"),
        doc="The least important level that is written to the node's own log.",
    )

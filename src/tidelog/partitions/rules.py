"""The part of a topic's settings that a produced batch is checked against."""

from __future__ import annotations

from tidelog.codec.compression import CompressionType
from tidelog.config.topic import TopicConfig
from tidelog.records.validation import ProduceRules

_TARGETS = {
    "producer": None,
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


def produce_rules(config: TopicConfig) -> ProduceRules:
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return ProduceRules(
        max_message_bytes=config.max_message_bytes,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        compacted=config.is_compacted,
        target_compression=_TARGETS[config.compression_type],
        compression_level=levels.get(config.compression_type),
        validate_records=config.tidelog_validate_records,
    )

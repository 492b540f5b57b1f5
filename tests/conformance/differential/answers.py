"""An answer as plain data that can be compared between two brokers: what must differ is masked, nothing else."""

from __future__ import annotations

from typing import Any

from tidelog.protocol.message import Structure

MASKED = frozenset(
    {
        "broker_epoch",
        "cluster_id",
        "error_message",
        "batch_index_error_message",
        "finalized_features",
        "finalized_features_epoch",
        "supported_features",
        "zk_migration_ready",
        "log_dir",
        "partition_size",
        "port",
        "producer_id",
        "session_id",
        "throttle_time_ms",
        "total_bytes",
        "usable_bytes",
        "documentation",
    }
)
"""Addresses, ids and sizes belong to a broker; messages are for people."""


def plain(value: Any, name: str = "") -> Any:
    """Nested dicts and lists; a masked value becomes a note whether there is one."""
    if name in MASKED:
        return "..."
    if name == "topic_id":
        return "zero" if value == bytes(16) else "an id"
    if isinstance(value, Structure):
        return {field: plain(getattr(value, field), field) for field in value.__slots__}
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value

"""Between the records of `tidelog.v1` and those of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.gateways.grpc.generated.tidelog_pb2 import Header, Record
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.records.record import Record as LogRecord


def new_records(messages: Iterable[Any], now_ms: int) -> list[NewRecord]:
    """Presence is asked only of what is empty, which is rare or null."""
    records = []
    for message in messages:
        key, value, timestamp, headers = message.key, message.value, message.timestamp, message.headers
        if not key and not message.HasField("key"):
            key = None
        if not value and not message.HasField("value"):
            value = None
        if not timestamp and not message.HasField("timestamp"):
            timestamp = now_ms
        records.append(
            NewRecord(
                key,
                value,
                timestamp,
                tuple((each.name, each.value if each.HasField("value") else None) for each in headers)
                if headers
                else (),
            )
        )
    return records


def message_of(record: LogRecord) -> Record:
    offset, timestamp, key, value, headers = record
    if headers:
        return Record(
            key=key,
            value=value,
            timestamp=timestamp,
            offset=offset,
            headers=[Header(name=name, value=content) for name, content in headers],
        )
    return Record(key=key, value=value, timestamp=timestamp, offset=offset)

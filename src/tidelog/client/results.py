"""What the client returns."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    topic: str
    partition: int
    offset: int
    """-1 with acks=0."""


class BatchPublished(NamedTuple):
    topic: str
    partition: int
    offsets: tuple[int, ...]


class Record(NamedTuple):
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Fetched(NamedTuple):
    records: tuple[Record, ...]
    next_offset: int
    """The offset to ask for next."""


class StreamedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    position: str
    """What a stream is resumed with: it goes on behind this record, in every partition that was read so far."""

"""The records of one decision as one batch of the metadata log: a crash leaves all of them or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.records.batch import decode_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records


def build_metadata_batch(values: Iterable[bytes], now_ms: int) -> bytes:
    """Without offset and leader epoch, which the log assigns."""
    return build_batch(NewRecord(None, value, now_ms) for value in values)


def decode_metadata_batch(batch: bytes) -> Iterator[bytes]:
    """The values of the records in a batch of the metadata log; nothing for a control batch."""
    if not decode_header(batch).is_control:
        for record in iterate_records(batch):
            yield record.value or b""

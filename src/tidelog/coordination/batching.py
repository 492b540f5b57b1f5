"""Batches of coordinator records, written and read with as little work as possible.

Every offset commit writes one and every start reads them all, so this is a second, narrower way beside
`records.builder` and `records.record`: one timestamp for all records, no headers, no compression. The tests hold what
is written byte for byte against the builder; batches of any other kind are read by the general code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from tidelog.codec.crc32c import crc32c
from tidelog.codec.varint import MalformedVarint, decode_varint, encode_varint
from tidelog.coordination.log import LoadedBatch
from tidelog.model.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from tidelog.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_MASK,
    CorruptBatch,
)
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import iterate_records

KeyValue = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""

_FRONT: Final = Struct(">qiibI")
_BACK: Final = Struct(">hiqqqhii")
_unpack_header: Final = Struct(">qiibIhiqqqhii").unpack_from
_SMALL_VARINTS: Final = tuple(encode_varint(value) for value in range(256))
"""Nearly all that are written: calling the encoder costs more than the rest of a record."""
_SPECIAL: Final = COMPRESSION_MASK | CONTROL_MASK | TRANSACTIONAL_MASK


def encode_batch(
    records: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """A batch that has neither its offset nor its leader epoch yet."""
    parts = [b""]
    small, limit = _SMALL_VARINTS, len(_SMALL_VARINTS)
    for delta, (key, value) in enumerate(records):
        key_size = len(key)
        if value is None:
            written_size = b"\x01"
        else:
            value_size = len(value)
            written_size = small[value_size] if value_size < limit else encode_varint(value_size)
        body = b"".join(
            (
                b"\x00\x00",
                small[delta] if delta < limit else encode_varint(delta),
                small[key_size] if key_size < limit else encode_varint(key_size),
                key,
                written_size,
                value or b"",
                b"\x00",
            )
        )
        size = len(body)
        parts.append(small[size] if size < limit else encode_varint(size))
        parts.append(body)
    count = len(records)
    attributes = 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_MASK
    parts[0] = _BACK.pack(
        attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, producer_epoch, NO_SEQUENCE, count
    )
    covered = b"".join(parts)
    length = len(covered) + _FRONT.size - LOG_OVERHEAD
    return _FRONT.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc32c(covered)) + covered


def read_batches(data: bytes) -> Iterator[tuple[int, LoadedBatch | None]]:
    """The offset after each whole batch in `data`, and what is in it; None for a control batch of no concern here.

    Ends before a batch that is cut short; raises BrokerError for bytes that are no batch.
    """
    at, size = 0, len(data)
    while size - at >= HEADER_SIZE:
        base, length, _, magic, _, attributes, last_delta, _, _, producer_id, _, _, count = _unpack_header(data, at)
        if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"batch with magic {magic} and length {length}")
        end = at + LOG_OVERHEAD + length
        if end > size:
            return
        next_offset = base + last_delta + 1
        if not attributes & _SPECIAL:
            records = _read_records(data, at + HEADER_SIZE, end, base, count)
            yield next_offset, LoadedBatch(_read_generally(data, at, end) if records is None else records)
        elif attributes & CONTROL_MASK:
            marker = decode_end_txn_marker(memoryview(data)[at:end])
            yield next_offset, None if marker is None else LoadedBatch((), producer_id, marker.commit)
        else:
            owner = producer_id if attributes & TRANSACTIONAL_MASK else NO_PRODUCER_ID
            yield next_offset, LoadedBatch(_read_generally(data, at, end), owner)
        at = end


def _read_generally(data: bytes, at: int, end: int) -> list[KeyValue]:
    return [(record.offset, record.key, record.value) for record in iterate_records(memoryview(data)[at:end])]


def _read_records(data: bytes, pos: int, end_of_batch: int, base_offset: int, count: int) -> list[KeyValue] | None:
    """Offset, key and value of `count` records; None when something is wrong with them.

    Most numbers fit one byte; they are read in place, since a call costs more than the rest of it.
    """
    found: list[KeyValue] = []
    try:
        for _ in range(count):
            byte = data[pos]
            length, pos = (byte >> 1, pos + 1) if byte < 0x80 and not byte & 1 else decode_varint(data, pos)
            end = pos + length
            if length < 0 or end > end_of_batch:
                return None
            pos += 1
            while data[pos] & 0x80:  # the timestamp is not needed
                pos += 1
            byte = data[pos + 1]
            delta, pos = (byte >> 1, pos + 2) if byte < 0x80 and not byte & 1 else decode_varint(data, pos + 1)
            byte = data[pos]
            size, pos = (byte >> 1, pos + 1) if byte < 0x80 and not byte & 1 else decode_varint(data, pos)
            key = value = None
            if size >= 0:
                key = data[pos : pos + size]
                pos += size
            byte = data[pos]
            size, pos = (byte >> 1, pos + 1) if byte < 0x80 and not byte & 1 else decode_varint(data, pos)
            if size >= 0:
                value = data[pos : pos + size]
                pos += size
            if pos >= end:
                return None
            found.append((base_offset + delta, key, value))
            pos = end
    except (IndexError, MalformedVarint):
        return None
    return found

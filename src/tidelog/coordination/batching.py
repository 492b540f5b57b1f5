"""Batches of coordinator records, written and read with as little work as possible.

Every offset commit writes one and every start reads them all, so this is a second, narrower way beside
`records.builder` and `records.record`: one timestamp for all records, no headers, no compression. The tests hold what
is written byte for byte against the builder; batches of any other kind are read by the general code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from tidelog.codec.crc32c import crc32c
from tidelog.codec.varint import MalformedVarint, decode_varint
from tidelog.coordination.log import LoadedBatch
from tidelog.model.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from tidelog.protocol.hot_wire import unsigned_varint_bytes, write_unsigned_varint
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

if TYPE_CHECKING:
    from mypy_extensions import i64

KeyValue = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""

_FRONT_BYTES: Final = 21
"""What the checksum does not cover: offset, length, leader epoch, magic, and itself."""
_unpack_header: Final = Struct(">qiibIhiqqqhii").unpack_from
_SPECIAL: Final = COMPRESSION_MASK | CONTROL_MASK | TRANSACTIONAL_MASK


def encode_batch(
    records: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """A batch that has neither its offset nor its leader epoch yet."""
    count = len(records)
    out = BytesWriter()
    write_i16_be(out, 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_MASK)
    write_i32_be(out, count - 1)
    write_i64_be(out, timestamp_ms)
    write_i64_be(out, timestamp_ms)
    write_i64_be(out, producer_id)
    write_i16_be(out, producer_epoch)
    write_i32_be(out, NO_SEQUENCE)
    write_i32_be(out, count)
    for delta, (key, value) in enumerate(records):
        _write_record(out, delta, key, value)
    covered = out.getvalue()
    front = BytesWriter()
    write_i64_be(front, 0)
    write_i32_be(front, len(covered) + _FRONT_BYTES - LOG_OVERHEAD)
    write_i32_be(front, NO_LEADER_EPOCH)
    front.append(MAGIC)
    checksum = crc32c(covered)
    write_i32_be(front, checksum if checksum < 0x80000000 else checksum - 0x100000000)
    front.write(covered)
    return front.getvalue()


def _write_record(out: BytesWriter, delta: i64, key: bytes, value: bytes | None) -> None:
    """No number is negative but the size of a value that is none, so the zigzag form of each is its double."""
    key_size: i64 = len(key)
    value_size: i64 = 0 if value is None else len(value)
    size = 4 + unsigned_varint_bytes(delta * 2) + unsigned_varint_bytes(key_size * 2) + key_size + value_size
    # Attributes, time and headers take a byte each, and so does a value that is none.
    size += 0 if value is None else unsigned_varint_bytes(value_size * 2) - 1
    write_unsigned_varint(out, size * 2)
    out.append(0)
    out.append(0)
    write_unsigned_varint(out, delta * 2)
    write_unsigned_varint(out, key_size * 2)
    out.write(key)
    if value is None:
        out.append(1)
    else:
        write_unsigned_varint(out, value_size * 2)
        out.write(value)
    out.append(0)


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

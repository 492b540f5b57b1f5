"""The records inside a batch: decoding them one by one, with every length checked before it is used.

Records are read only where they must be (compaction, dumps, gateways, keys of compacted topics). Timestamps and
offsets are deltas to the batch header; a batch stamped by the log gives all its records the header's timestamp.
Damage raises InvalidRecord, CorruptBatch or DecompressionError, nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.compression import decompress
from tidelog.codec.varint import MalformedVarint, decode_varint, decode_varlong
from tidelog.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORD_HEADERS_MAX
from tidelog.records.batch import (
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptBatch,
    InvalidRecord,
    decode_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.buffers import Buffer

_new_tuple: Final = tuple.__new__
Headers = tuple[tuple[str, bytes | None], ...]

RECORD_SIZE_MIN: Final = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""


class Record(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordSpan(NamedTuple):
    """Where one record lies in the decompressed records of its batch; key and value are not copied out."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_size: int
    """-1 when the key is null."""
    value_start: int
    value_size: int
    """-1 when the value is null."""
    headers_start: int


def load_payload(batch: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX) -> bytes:
    """The records of the batch, decompressed, as bytes of at most `limit_bytes`."""
    size = header.size_in_bytes
    if len(batch) < size:
        raise CorruptBatch(f"batch of {size} bytes cut short at {len(batch)}")
    compression_type = header.compression_type
    if compression_type == 0:
        return bytes(batch[HEADER_SIZE:size])
    return decompress(compression_type, memoryview(batch)[HEADER_SIZE:size], limit_bytes)


def decode_span(payload: bytes, start: int) -> RecordSpan:
    """One record at `start`; its own length bounds every field in it.

    Most numbers in a record take one byte: those are decoded in place, which halves the time.
    """
    size = len(payload)
    try:
        byte = payload[start]
        length, pos = (byte >> 1 ^ -(byte & 1), start + 1) if byte < 0x80 else decode_varint(payload, start)
        end = pos + length
        if length < 0 or end > size:
            raise InvalidRecord(f"record of {length} bytes at {start} in {size} bytes of records")
        # One attributes byte, unused in magic 2.
        byte = payload[pos + 1]
        timestamp_delta, pos = (byte >> 1 ^ -(byte & 1), pos + 2) if byte < 0x80 else decode_varlong(payload, pos + 1)
        byte = payload[pos]
        offset_delta, pos = (byte >> 1 ^ -(byte & 1), pos + 1) if byte < 0x80 else decode_varint(payload, pos)
        byte = payload[pos]
        key_size, key_start = (byte >> 1 ^ -(byte & 1), pos + 1) if byte < 0x80 else decode_varint(payload, pos)
        pos = key_start + key_size if key_size > 0 else key_start
        if pos > end:
            raise InvalidRecord(f"key of {key_size} bytes in a record of {length}")
        byte = payload[pos]
        value_size, value_start = (byte >> 1 ^ -(byte & 1), pos + 1) if byte < 0x80 else decode_varint(payload, pos)
        pos = value_start + value_size if value_size > 0 else value_start
    except MalformedVarint as error:
        raise InvalidRecord(error.message) from None
    except IndexError:
        raise InvalidRecord(f"record at {start} cut short at {size}") from None
    # The header count takes at least one byte.
    if pos >= end:
        raise InvalidRecord(f"value of {value_size} bytes in a record of {length}")
    if key_size < 0 or value_size < 0:
        key_size, value_size = max(key_size, -1), max(value_size, -1)
    return _new_tuple(
        RecordSpan, (start, end, timestamp_delta, offset_delta, key_start, key_size, value_start, value_size, pos)
    )


def iterate_spans(payload: bytes, record_count: int) -> Iterator[RecordSpan]:
    """The records of a decompressed batch; exactly `record_count` of them must fill it."""
    pos = 0
    for _ in range(record_count):
        span = decode_span(payload, pos)
        yield span
        pos = span.end
    if pos != len(payload):
        raise InvalidRecord(f"{len(payload) - pos} bytes behind the last of {record_count} records")


def decode_record_headers(payload: bytes, pos: int, end: int) -> Headers:
    """The headers of a record, which must end where the record ends."""
    try:
        count, pos = decode_varint(payload, pos)
        if count < 0 or count > RECORD_HEADERS_MAX or count * 2 > end - pos:
            raise InvalidRecord(f"{count} headers in {end - pos} bytes")
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            size, pos = decode_varint(payload, pos)
            if size < 0 or size > end - pos:
                raise InvalidRecord(f"header name of {size} bytes in {end - pos}")
            name = payload[pos : pos + size].decode()
            pos += size
            size, pos = decode_varint(payload, pos)
            if size < 0:
                headers.append((name, None))
                continue
            if size > end - pos:
                raise InvalidRecord(f"header value of {size} bytes in {end - pos}")
            headers.append((name, payload[pos : pos + size]))
            pos += size
    except MalformedVarint as error:
        raise InvalidRecord(error.message) from None
    except UnicodeDecodeError:
        raise InvalidRecord("a header name is not UTF-8") from None
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes behind the last header of a record")
    return tuple(headers)


def iterate_records(batch: Buffer, limit_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX) -> Iterator[Record]:
    """The records of the one batch that `batch` begins with; the checksum is not verified."""
    header = decode_header(batch)
    payload = load_payload(batch, header, limit_bytes)
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    stamped = header.attributes & TIMESTAMP_TYPE_MASK != 0
    for _, end, timestamp_delta, offset_delta, key_start, key_size, value_start, value_size, pos in iterate_spans(
        payload, header.record_count
    ):
        yield Record(
            base_offset + offset_delta,
            header.max_timestamp if stamped else base_timestamp + timestamp_delta,
            payload[key_start : key_start + key_size] if key_size >= 0 else None,
            payload[value_start : value_start + value_size] if value_size >= 0 else None,
            () if end - pos == 1 and payload[pos] == 0 else decode_record_headers(payload, pos, end),
        )

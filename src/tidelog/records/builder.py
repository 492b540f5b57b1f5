"""Building record batches, and changing the header of one that exists.

Producers inside the node number their records from a base offset; compaction keeps the offsets that records have, with
gaps, and may keep an empty batch so that a producer's last sequence number survives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from librt.strings import BytesWriter

from tidelog.codec.compression import CompressionType, compress
from tidelog.codec.crc32c import crc32c
from tidelog.codec.varint import decode_varint, decode_varlong, encode_varint, encode_varlong
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from tidelog.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_MASK,
    CRC_POSITION,
    CREATE_TIME,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    encode_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.codec.buffers import Buffer
    from tidelog.records.record import Headers, Record, RecordSpan


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """One record as it stands in a batch, its length in front."""
    parts = [b"\x00", encode_varlong(timestamp_delta), encode_varint(offset_delta)]
    for field in (key, value):
        if field is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(field)), field)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        raw = name.encode()
        parts += (encode_varint(len(raw)), raw)
        if content is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def assemble_batch(header: BatchHeader, payload: Buffer, *, level: int | None = None) -> bytes:
    """A batch of `header` (whose length and CRC are computed here) and uncompressed records."""
    if header.compression_type != CompressionType.NONE:
        payload = compress(header.compression_type, payload, level)
    batch = bytearray(encode_header(header))
    batch += payload
    batch[8:12] = (HEADER_SIZE - LOG_OVERHEAD + len(payload)).to_bytes(4, "big")
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]).to_bytes(4, "big")
    return bytes(batch)


def encode_attributes(
    *,
    compression: int = CompressionType.NONE,
    timestamp_type: int = CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> int:
    return (
        compression
        | (TIMESTAMP_TYPE_MASK if timestamp_type else 0)
        | (TRANSACTIONAL_MASK if transactional else 0)
        | (CONTROL_MASK if control else 0)
        | (DELETE_HORIZON_MASK if delete_horizon else 0)
    )


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    compression: int = CompressionType.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = CREATE_TIME,
    partition_leader_epoch: int = -1,
) -> bytes:
    """A batch of at least one record, numbered from `base_offset`."""
    parts = []
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = 0
    for key, value, timestamp, headers in records:
        if count == 0:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        parts.append(encode_record(timestamp - base_timestamp, count, key, value, headers))
        count += 1
    if count == 0:
        raise ValueError("a batch needs at least one record")
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=encode_attributes(
            compression=compression, timestamp_type=timestamp_type, transactional=transactional, control=control
        ),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return assemble_batch(header, b"".join(parts), level=level)


def build_batch_of_values(values: Sequence[bytes], timestamp: int) -> bytes:
    """The batch that `build_batch` makes of records that have only values, in a third of the time."""
    count = len(values)
    if count == 0:
        raise ValueError("a batch needs at least one record")
    out = BytesWriter()
    head = between = b""
    described = -1, -1
    for offset_delta, value in enumerate(values):
        offset = encode_varint(offset_delta)
        if described != (len(offset), len(value)):
            # Most values of a batch are of one size: what depends on it is made once.
            described = len(offset), len(value)
            size = encode_varint(len(value))
            # Attributes, time, key and the number of headers take a byte each.
            head = encode_varint(len(offset) + len(size) + len(value) + 4) + b"\0\0"
            between = b"\x01" + size
        out.write(head)
        out.write(offset)
        out.write(between)
        out.write(value)
        out.append(0)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return assemble_batch(header, out.getvalue())


def build_batch_with_offsets(header: BatchHeader, records: Sequence[Record], *, level: int | None = None) -> bytes:
    """A batch like the one `header` describes, holding only `records` at the offsets they have.

    Base offset, last offset, producer fields and base timestamp stay, so that readers and producers see no difference
    but the gaps; the record count and (unless the log stamped the batch) the largest timestamp follow the records.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    payload = b"".join(
        encode_record(
            record.timestamp - base_timestamp, record.offset - base_offset, record.key, record.value, record.headers
        )
        for record in records
    )
    max_timestamp = header.max_timestamp
    if not header.timestamp_type:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    return assemble_batch(header.replace(record_count=len(records), max_timestamp=max_timestamp), payload, level=level)


def rewrite_header(
    batch: Buffer,
    header: BatchHeader,
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int | None = None,
    attributes: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> tuple[bytes, BatchHeader]:
    """A copy of the batch with these fields changed and, where the CRC covers them, a new CRC."""
    changed = header.replace(
        base_offset=header.base_offset if base_offset is None else base_offset,
        partition_leader_epoch=header.partition_leader_epoch
        if partition_leader_epoch is None
        else partition_leader_epoch,
        attributes=header.attributes if attributes is None else attributes,
        base_timestamp=header.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=header.max_timestamp if max_timestamp is None else max_timestamp,
    )
    out = bytearray(batch[: header.size_in_bytes])
    out[:HEADER_SIZE] = encode_header(changed)
    if changed.covered_fields() != header.covered_fields():
        changed = changed.replace(crc=crc32c(memoryview(out)[ATTRIBUTES_POSITION:]))
        out[:HEADER_SIZE] = encode_header(changed)
    return bytes(out), changed


def restamp_log_append_time(batch: Buffer, header: BatchHeader, now_ms: int) -> tuple[bytes, BatchHeader]:
    """The batch as `message.timestamp.type=LogAppendTime` wants it: every record has the time of the append."""
    return rewrite_header(batch, header, attributes=header.attributes | TIMESTAMP_TYPE_MASK, max_timestamp=now_ms)


def shift_timestamps(payload: bytes, spans: Iterable[RecordSpan], shift: int) -> bytes:
    """These records again with `shift` added to each timestamp delta; nothing else in them changes."""
    parts: list[bytes] = []
    for span in spans:
        # Behind the length: one attributes byte, then the timestamp delta.
        _, attributes_at = decode_varint(payload, span.start)
        _, rest_at = decode_varlong(payload, attributes_at + 1)
        delta = encode_varlong(span.timestamp_delta + shift)
        body = payload[attributes_at : attributes_at + 1] + delta + payload[rest_at : span.end]
        parts += (encode_varint(len(body)), body)
    return b"".join(parts)

"""The header of a record batch, magic 2: the only part of a batch that the data path reads.

A batch is 61 bytes of header followed by its records, compressed or not. The first 12 bytes (base offset and length)
count as overhead: `batch_length` does not include them. The CRC covers everything from the attributes on, so that a
broker may set base offset and partition leader epoch without touching it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from tidelog.codec.crc32c import crc32c
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.quick_value import QuickValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.buffers import Buffer

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
"""Where the bytes covered by the CRC begin."""
BATCH_LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_SEQUENCES: Final = 1 << 31
_FIELD_NAMES: Final = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
assert _HEADER.size == HEADER_SIZE


class CorruptBatch(BrokerError):
    """Bytes that cannot be a batch: too short, a lying length, an unknown magic or a wrong checksum."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecord(BrokerError):
    """A batch whose contents break a rule, although its bytes arrived as they were sent."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class RejectedBatch(InvalidRecord):
    """A batch that is whole and could be read, but may not be appended: Kafka then also tells where the log starts."""


class BatchHeader(QuickValue):
    """The fields in the order of the wire. Never changed after construction."""

    __slots__ = _FIELD_NAMES

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        """The first record's timestamp; the delete horizon once compaction has set one."""
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    def fields(self) -> tuple[object, ...]:
        outside_crc = self.base_offset, self.batch_length, self.partition_leader_epoch, self.magic, self.crc
        return *outside_crc, *self.covered_fields()

    def covered_fields(self) -> tuple[object, ...]:
        """The fields that the CRC covers."""
        records = self.attributes, self.last_offset_delta, self.base_timestamp, self.max_timestamp
        return *records, self.producer_id, self.producer_epoch, self.base_sequence, self.record_count

    def replace(self, **changes: int) -> BatchHeader:
        """The same with these fields changed."""
        fields: dict[str, Any] = dict(zip(_FIELD_NAMES, self.fields(), strict=True))
        return BatchHeader(**{**fields, **changes})

    @property
    def size_in_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression_type(self) -> int:
        """One of CompressionType, or 5 to 7, which no codec has."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_MASK != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES


def decode_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`; that the whole batch is there is not checked, that its length is possible is."""
    if len(buf) - pos < HEADER_SIZE:
        raise CorruptBatch(f"{max(len(buf) - pos, 0)} bytes are too few for a batch header")
    if isinstance(buf, bytes):
        data, at = buf, pos
    else:
        data, at = bytes(buf[pos : pos + HEADER_SIZE]), 0
    unsigned_magic = data[at + MAGIC_POSITION]
    magic = unsigned_magic if unsigned_magic < 128 else unsigned_magic - 256
    length = read_i32_be(data, at + 8)
    crc: int = read_i32_be(data, at + CRC_POSITION)
    if magic != MAGIC or length < BATCH_LENGTH_MIN:
        raise CorruptBatch(f"batch with magic {magic} and length {length}")
    return BatchHeader(
        read_i64_be(data, at),
        length,
        read_i32_be(data, at + 12),
        magic,
        crc if crc >= 0 else crc + (1 << 32),
        read_i16_be(data, at + ATTRIBUTES_POSITION),
        read_i32_be(data, at + 23),
        read_i64_be(data, at + 27),
        read_i64_be(data, at + 35),
        read_i64_be(data, at + 43),
        read_i16_be(data, at + 51),
        read_i32_be(data, at + 53),
        read_i32_be(data, at + 57),
    )


def encode_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*header.fields())


def verify_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the batch at `pos` is whole and its checksum right; nothing is copied."""
    end = pos + header.batch_length + LOG_OVERHEAD
    return end <= len(buf) and crc32c(memoryview(buf)[pos + ATTRIBUTES_POSITION : end]) == header.crc


def iterate_headers(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; ends quietly before a batch that is cut short, as fetched data may be.

    Bytes that are not a batch raise CorruptBatch.
    """
    end = len(buf)
    while end - pos >= LOG_OVERHEAD:
        _, length = _OFFSET_AND_LENGTH.unpack_from(buf, pos)
        if length < BATCH_LENGTH_MIN:
            raise CorruptBatch(f"batch of length {length} at position {pos}")
        if end - pos < length + LOG_OVERHEAD:
            return
        header = decode_header(buf, pos)
        yield pos, header
        pos += length + LOG_OVERHEAD


def iterate_whole_headers(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; a batch that is cut short raises CorruptBatch too."""
    end = pos
    for position, header in iterate_headers(buf, pos):
        end = position + header.batch_length + LOG_OVERHEAD
        yield position, header
    if end != len(buf):
        raise CorruptBatch(f"{len(buf) - end} bytes behind the last whole batch")

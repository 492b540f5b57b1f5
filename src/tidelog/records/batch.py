"""The header of a record batch, magic 2: the only part of a batch that the data path reads.

A batch is 61 bytes of header followed by its records, compressed or not. The first 12 bytes (base offset and length)
count as overhead: `batch_length` does not include them. The CRC covers everything from the attributes on, so that a
broker may set base offset and partition leader epoch without touching it.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.crc32c import crc32c
from tidelog.model.errors import BrokerError, ErrorCode

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
_unpack_header: Final = _HEADER.unpack_from
_new_tuple: Final = tuple.__new__
_SEQUENCES: Final = 1 << 31
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


class BatchHeader(NamedTuple):
    """The fields in the order of the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """The first record's timestamp; the delete horizon once compaction has set one."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

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
    try:
        # Twice as fast as calling the class: this runs for every batch produced.
        header = _new_tuple(BatchHeader, _unpack_header(buf, pos))
    except struct_error:
        raise CorruptBatch(f"{max(len(buf) - pos, 0)} bytes are too few for a batch header") from None
    if header.magic != MAGIC or header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatch(f"batch with magic {header.magic} and length {header.batch_length}")
    return header


def encode_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*header)


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

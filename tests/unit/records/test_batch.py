"""Batch headers: field for field, and everything that is not one."""

import struct

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    decode_header,
    encode_header,
    iterate_headers,
    iterate_whole_headers,
    verify_crc,
)
from tidelog.records.builder import NewRecord, build_batch

# A batch of one record ("key", "value", 1700000000000), written byte by byte from the format's description.
RECORD = b"\x1c\x00\x00\x00\x06key\x0avalue\x00"
BATCH = (
    struct.pack(">qii", 7, 49 + len(RECORD), 3)
    + b"\x02"
    + struct.pack(">I", 0x9A1B_5F3E)
    + struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1)
    + RECORD
)


def header_of(**fields: int) -> BatchHeader:
    return decode_header(build_batch([NewRecord(b"k", b"v", 5)])).replace(**fields)


def test_decodes_every_field() -> None:
    assert decode_header(BATCH) == BatchHeader(
        7, 64, 3, 2, 0x9A1B_5F3E, 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1
    )
    assert encode_header(decode_header(BATCH)) == BATCH[:HEADER_SIZE]


def test_builder_agrees_with_the_format() -> None:
    built = build_batch([NewRecord(b"key", b"value", 1_700_000_000_000)], base_offset=7, partition_leader_epoch=3)
    assert built[:17] == BATCH[:17]
    assert built[21:] == BATCH[21:]
    assert verify_crc(built, 0, decode_header(built))
    assert not verify_crc(BATCH, 0, decode_header(BATCH))


def test_decodes_at_a_position_of_any_buffer() -> None:
    for kind in (bytes, bytearray, memoryview):
        assert decode_header(kind(b"xyz" + BATCH), 3).base_offset == 7


def test_derived_fields() -> None:
    header = header_of(base_offset=100, last_offset_delta=9, batch_length=188)
    assert (header.last_offset, header.next_offset, header.size_in_bytes) == (109, 110, 200)
    flags = header_of(attributes=0b111_1100)
    assert flags.compression_type == 4
    assert flags.timestamp_type == 1
    assert flags.is_transactional
    assert flags.is_control
    assert flags.has_delete_horizon
    none = header_of(attributes=0)
    assert (none.compression_type, none.timestamp_type) == (0, 0)
    assert (none.is_transactional, none.is_control, none.has_delete_horizon) == (False, False, False)


def test_sequences_wrap() -> None:
    assert header_of(base_sequence=2**31 - 1, last_offset_delta=1).last_sequence == 0
    assert header_of(base_sequence=5, last_offset_delta=4).last_sequence == 9
    assert header_of(base_sequence=-1, last_offset_delta=4).last_sequence == -1


@pytest.mark.parametrize(
    "data",
    [b"", BATCH[:60], BATCH[:16] + b"\x01" + BATCH[17:], BATCH[:8] + b"\x00\x00\x00\x30" + BATCH[12:], b"\xff" * 61],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatch) as caught:
        decode_header(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_flipped_bit_behind_the_crc_is_noticed() -> None:
    batch = build_batch([NewRecord(b"k", b"v" * 100, 5)])
    header = decode_header(batch)
    assert verify_crc(batch, 0, header)
    for position in (21, 40, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[position] ^= 4
        assert not verify_crc(damaged, 0, header)
    assert not verify_crc(batch[:-1], 0, header)


def test_iteration_ends_before_a_torn_batch() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 5)])
    data = batch * 3
    assert [position for position, _ in iterate_headers(data)] == [0, len(batch), 2 * len(batch)]
    for cut in (1, 30, len(batch) - 1):
        assert len(list(iterate_headers(data[:-cut]))) == 2
        with pytest.raises(CorruptBatch):
            list(iterate_whole_headers(data[:-cut]))
    assert len(list(iterate_whole_headers(data))) == 3
    assert list(iterate_whole_headers(b"")) == []


def test_iteration_refuses_what_is_no_batch() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 5)])
    with pytest.raises(CorruptBatch):
        list(iterate_headers(batch + bytes(200)))

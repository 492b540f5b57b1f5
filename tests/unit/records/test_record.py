"""Records inside a batch: all their parts, and lying lengths."""

import pytest

from tidelog.codec.compression import CompressionType, DecompressionError
from tidelog.codec.varint import encode_varint
from tidelog.model.errors import BrokerError
from tidelog.records.batch import CorruptBatch, InvalidRecord, decode_header
from tidelog.records.builder import (
    NewRecord,
    assemble_batch,
    build_batch,
    build_batch_with_offsets,
    encode_record,
    restamp_log_append_time,
    rewrite_header,
    shift_timestamps,
)
from tidelog.records.record import Record, iterate_records, iterate_spans, load_payload

RECORDS = [
    NewRecord(b"a", b"1", 1000),
    NewRecord(None, b"no key", 990, (("h", b"x"), ("null", None), ("", b""))),
    NewRecord(b"", None, 1010),
    NewRecord(b"k" * 300, b"v" * 70_000, 2**40, (("größe", b"\xff"),)),
]


def expected(records: list[NewRecord], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + at, record.timestamp, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_round_trip(codec: CompressionType) -> None:
    batch = build_batch(RECORDS, base_offset=50, compression=codec)
    assert list(iterate_records(batch)) == expected(RECORDS, 50)
    assert list(iterate_records(memoryview(batch + b"more"))) == expected(RECORDS, 50)
    header = decode_header(batch)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (1000, 2**40, 4)


def test_decompression_is_bounded() -> None:
    batch = build_batch(RECORDS, compression=CompressionType.ZSTD)
    with pytest.raises(DecompressionError):
        list(iterate_records(batch, limit_bytes=1000))


def test_a_stamped_batch_gives_all_records_its_time() -> None:
    batch = build_batch(RECORDS)
    stamped, header = restamp_log_append_time(batch, decode_header(batch), 5_000_000)
    assert header == decode_header(stamped)
    assert [record.timestamp for record in iterate_records(stamped)] == [5_000_000] * 4
    assert header.crc != decode_header(batch).crc


def test_a_header_rewritten_outside_the_crc_keeps_it() -> None:
    batch = build_batch(RECORDS)
    moved, header = rewrite_header(batch, decode_header(batch), base_offset=9, partition_leader_epoch=4)
    assert (header.base_offset, header.partition_leader_epoch) == (9, 4)
    assert moved[16:] == batch[16:]


def test_explicit_offsets_leave_gaps() -> None:
    batch = build_batch(RECORDS, base_offset=50, producer_id=3, producer_epoch=1, base_sequence=7)
    kept = expected(RECORDS, 50)[1:3]
    smaller = build_batch_with_offsets(decode_header(batch), kept)
    assert list(iterate_records(smaller)) == kept
    header = decode_header(smaller)
    assert (header.base_offset, header.last_offset, header.record_count) == (50, 53, 2)
    assert (header.producer_id, header.base_sequence, header.max_timestamp) == (3, 7, 1010)


def test_an_empty_batch_has_no_records() -> None:
    header = decode_header(build_batch(RECORDS))
    assert list(iterate_records(build_batch_with_offsets(header, []))) == []


def test_shifted_timestamps() -> None:
    batch = build_batch(RECORDS)
    header = decode_header(batch)
    payload = load_payload(batch, header)
    spans = list(iterate_spans(payload, header.record_count))
    moved = assemble_batch(header.replace(base_timestamp=10**12), shift_timestamps(payload, spans, 1000 - 10**12))
    assert list(iterate_records(moved)) == expected(RECORDS, 0)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


GOOD = encode_record(0, 0, b"k", b"v", ())


@pytest.mark.parametrize(
    "payload",
    [
        GOOD + b"x",
        GOOD[:-1],
        b"",
        encode_varint(-5) + GOOD[1:],
        encode_varint(10**6) + GOOD[1:],
        encode_varint(7) + b"\x00\x00\x00" + encode_varint(100) + b"kk" + b"\x01\x00",
        encode_varint(7) + b"\x00\x00\x00\x01" + encode_varint(100) + b"v\x00",
        encode_varint(6) + b"\x00\x00\x00\x01\x01" + encode_varint(-1),
        encode_varint(8) + b"\x00\x00\x00\x01\x01" + encode_varint(2**30)[:3],
        encode_varint(8) + b"\x00\x00\x00\x01\x01\x02\x50x",
        encode_varint(9) + b"\x00\x00\x00\x01\x01\x02\x02\xff\x00",
        encode_varint(7) + b"\x00\x00\x00\x01\x01\x00\x00",
    ],
)
def test_lying_lengths_are_refused(payload: bytes) -> None:
    batch = assemble_batch(decode_header(build_batch([NewRecord(b"k", b"v", 5)])), payload)
    with pytest.raises(InvalidRecord):
        list(iterate_records(batch))


def test_a_record_count_that_is_too_large_is_refused() -> None:
    batch = assemble_batch(decode_header(build_batch([NewRecord(b"k", b"v", 5)])).replace(record_count=10**9), GOOD)
    with pytest.raises(BrokerError):
        list(iterate_records(batch))


def test_a_cut_batch_is_refused() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(CorruptBatch):
        list(iterate_records(batch[:-1]))

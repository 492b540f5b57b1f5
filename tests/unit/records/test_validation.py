"""Produced batches: what is taken, and the error each fault is answered with.

The errors were asked of Apache Kafka 4.3.1 by sending it these very bytes. Where Kafka takes what we refuse (or fails
with UNKNOWN_SERVER_ERROR), the case says so.
"""

import struct
import zlib

import pytest

from tidelog.codec.compression import CompressionType, compress
from tidelog.codec.crc32c import crc32c
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.batch import BatchHeader, decode_header, encode_header, verify_crc
from tidelog.records.builder import NewRecord, assemble_batch, build_batch, build_batch_with_offsets
from tidelog.records.record import iterate_records
from tidelog.records.validation import ProduceRules, RecordsRejected, prepare_produced, validate_produced

NOW = 1_800_000_000_000
HOUR = 3_600_000


def batch(count: int = 3, timestamp: int = NOW, **options: object) -> bytes:
    return build_batch([NewRecord(b"k%d" % at, b"v" * 20, timestamp + at) for at in range(count)], **options)  # type: ignore[arg-type]


def with_header(data: bytes, **fields: int) -> bytes:
    """The batch with fields of its header changed and the checksum made right again."""
    out = bytearray(data)
    header = decode_header(data).replace(**fields)
    out[:61] = encode_header(header)
    out[:61] = encode_header(header.replace(crc=crc32c(out[21:])))
    return bytes(out)


def legacy(magic: int) -> bytes:
    """A message of the formats before Kafka 0.11."""
    body = bytes([magic, 0]) + (struct.pack(">q", NOW) if magic else b"") + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def check(data: bytes | None, rules: ProduceRules | None = None, version: int = 9) -> BatchHeader:
    return validate_produced(data, rules or ProduceRules(), now_ms=NOW, produce_version=version)


def refused(data: bytes | None, rules: ProduceRules | None = None, version: int = 9) -> ErrorCode:
    """The code of the refusal; `prepare_produced`, which the node calls, must agree."""
    with pytest.raises(BrokerError) as caught:
        prepare_produced(data, rules or ProduceRules(), now_ms=NOW, produce_version=version)
    with pytest.raises(BrokerError) as again:
        check(data, rules, version)
    assert again.value.code == caught.value.code
    return caught.value.code


GOOD = batch()
FLIPPED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])


@pytest.mark.parametrize("codec", list(CompressionType))
def test_good_batches_are_taken_as_they_are(codec: CompressionType) -> None:
    data = batch(300, compression=codec)
    assert check(data) == decode_header(data)
    records, header = prepare_produced(data, ProduceRules(), now_ms=NOW, produce_version=9)
    assert records is data
    assert header == decode_header(data)
    assert check(memoryview(data)) == header  # type: ignore[arg-type]


INVALID_RECORD = [
    ("null (Kafka closes the connection)", None),
    ("empty", b""),
    ("shorter than the overhead", GOOD[:11]),
    ("shorter than the magic", GOOD[:16]),
    ("shorter than a header", GOOD[:40]),
    ("cut short", GOOD[:-1]),
    ("two batches", GOOD + GOOD),
    ("magic 0", legacy(0)),
    ("magic 1", legacy(1)),
    ("base offset", with_header(GOOD, base_offset=5)),
    ("no records", with_header(GOOD, record_count=0)),
    ("negative count", with_header(GOOD, record_count=-1)),
    ("no records and delta -1", with_header(GOOD, record_count=0, last_offset_delta=-1)),
    ("count above delta", with_header(GOOD, record_count=4)),
    ("more records than bytes", with_header(GOOD, record_count=10**9, last_offset_delta=10**9 - 1)),
    ("control batch", batch(control=True)),
    ("delete horizon (Kafka takes it)", with_header(GOOD, attributes=0x40)),
    ("unknown codec (Kafka: UNKNOWN_SERVER_ERROR)", with_header(GOOD, attributes=5)),
    ("producer without sequence", batch(producer_id=5, producer_epoch=0)),
    ("transactional without producer", batch(transactional=True)),
    ("records of three bytes", assemble_batch(decode_header(GOOD), bytes(3))),
]
CORRUPT = [
    ("checksum", FLIPPED),
    ("magic 3", GOOD[:16] + b"\x03" + GOOD[17:]),
    ("magic -1", GOOD[:16] + b"\xff" + GOOD[17:]),
    ("length 5", GOOD[:8] + struct.pack(">i", 5) + GOOD[12:]),
    ("length 30", GOOD[:8] + struct.pack(">i", 30) + GOOD[12:]),
    ("length -1", GOOD[:8] + struct.pack(">i", -1) + GOOD[12:]),
    ("zeros behind the batch", GOOD + bytes(20)),
]


@pytest.mark.parametrize("data", [case[1] for case in INVALID_RECORD], ids=[case[0] for case in INVALID_RECORD])
def test_invalid_record(data: bytes | None) -> None:
    assert refused(data) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("data", [case[1] for case in CORRUPT], ids=[case[0] for case in CORRUPT])
def test_corrupt_message(data: bytes) -> None:
    assert refused(data) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("rest", [b"abc", GOOD[:70]])
def test_the_beginning_of_a_second_batch_is_cut_off(rest: bytes) -> None:
    records, header = prepare_produced(GOOD + rest, ProduceRules(), now_ms=NOW, produce_version=9)
    assert bytes(records) == GOOD
    assert header == decode_header(GOOD)


def test_idempotent_batches_are_taken() -> None:
    assert check(batch(producer_id=5, producer_epoch=0, base_sequence=0)).producer_id == 5
    assert check(batch(base_sequence=3)).base_sequence == 3
    assert check(batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)).is_transactional


def test_size_limit_at_its_edge() -> None:
    assert check(GOOD, ProduceRules(max_message_bytes=len(GOOD)))
    assert refused(GOOD, ProduceRules(max_message_bytes=len(GOOD) - 1)) == ErrorCode.MESSAGE_TOO_LARGE
    # The size is looked at before the checksum, as in Kafka: a large damaged batch is too large.
    assert refused(FLIPPED, ProduceRules(max_message_bytes=len(GOOD) - 1)) == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_7() -> None:
    data = batch(compression=CompressionType.ZSTD)
    assert refused(data, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(data, version=7)


def test_timestamps_ahead_of_the_clock() -> None:
    edge = build_batch([NewRecord(b"k", b"v", NOW + HOUR)])
    over = build_batch([NewRecord(b"k", b"v", NOW + HOUR + 1)])
    assert check(edge)
    assert refused(over) == ErrorCode.INVALID_TIMESTAMP
    assert refused(with_header(over, max_timestamp=NOW)) == ErrorCode.INVALID_TIMESTAMP
    assert check(over, ProduceRules(log_append_time=True))


def test_timestamps_behind_the_clock_are_looked_for_in_every_record() -> None:
    rules = ProduceRules(timestamp_before_max_ms=1000)
    assert check(build_batch([NewRecord(b"k", b"v", NOW), NewRecord(b"k", b"v", NOW - 1000)]), rules)
    late = build_batch([NewRecord(b"k", b"v", NOW), NewRecord(b"k", b"v", NOW - 1001)])
    with pytest.raises(RecordsRejected) as caught:
        check(late, rules)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [1]
    assert check(late)
    assert check(late, ProduceRules(timestamp_before_max_ms=1000, log_append_time=True))


def test_no_timestamp_is_no_fault() -> None:
    data = build_batch([NewRecord(b"k", b"v")])
    assert check(data, ProduceRules(timestamp_before_max_ms=1000)).max_timestamp == -1


@pytest.mark.parametrize("log_append_time", [True, False])
def test_producers_do_not_stamp_for_the_log(log_append_time: bool) -> None:
    """Kafka refuses it only on a topic that stamps itself; elsewhere it quietly clears the flag."""
    data = with_header(GOOD, attributes=8)
    assert refused(data, ProduceRules(log_append_time=log_append_time)) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", list(CompressionType))
def test_compacted_topics_need_keys(codec: CompressionType) -> None:
    rules = ProduceRules(compacted=True)
    data = build_batch([NewRecord(b"", b"v", NOW), NewRecord(None, b"v", NOW)], compression=codec)
    with pytest.raises(RecordsRejected) as caught:
        check(data, rules)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [1]
    assert check(data)
    assert check(batch(compression=codec), rules)


def test_opened_batches_must_hold_what_they_announce() -> None:
    rules = ProduceRules(validate_records=True)
    assert check(GOOD, rules)
    assert refused(with_header(GOOD, record_count=2, last_offset_delta=1), rules) == ErrorCode.INVALID_RECORD
    assert refused(assemble_batch(decode_header(GOOD), GOOD[61:] + b"xx"), rules) == ErrorCode.INVALID_RECORD
    same_offset = [record._replace(offset=0) for record in iterate_records(GOOD)]
    assert refused(build_batch_with_offsets(decode_header(GOOD), same_offset), rules) == ErrorCode.INVALID_RECORD
    for codec in (1, 2, 3, 4):
        # Not a retriable error: the same bytes would come again and again.
        assert refused(with_header(GOOD, attributes=codec), rules) == ErrorCode.INVALID_RECORD


def test_a_bomb_is_refused_when_it_is_opened() -> None:
    header = decode_header(GOOD).replace(attributes=4)
    bomb = assemble_batch(header.replace(attributes=0), compress(4, bytes(10 << 20)))
    rules = ProduceRules(compacted=True, decompressed_bytes_max=1 << 20)
    assert refused(with_header(bomb, attributes=4), rules) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("source", list(CompressionType))
@pytest.mark.parametrize("target", list(CompressionType))
def test_batches_are_stored_in_the_codec_of_the_topic(source: CompressionType, target: CompressionType) -> None:
    data = batch(50, compression=source, producer_id=5, producer_epoch=1, base_sequence=9)
    rules = ProduceRules(target_compression=target)
    records, header = prepare_produced(data, rules, now_ms=NOW, produce_version=9)
    assert (records is data) == (source == target)
    assert header == decode_header(records)
    assert header.compression_type == target
    assert (header.producer_id, header.base_sequence) == (5, 9)
    assert verify_crc(records, 0, header)
    assert list(iterate_records(records)) == list(iterate_records(data))


def test_a_batch_that_grows_when_it_is_stored_in_another_codec_may_be_too_large() -> None:
    data = build_batch([NewRecord(None, bytes(10_000), NOW)], compression=CompressionType.ZSTD)
    rules = ProduceRules(target_compression=CompressionType.NONE, max_message_bytes=5_000)
    with pytest.raises(BrokerError) as caught:
        prepare_produced(data, rules, now_ms=NOW, produce_version=9)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("said", [2, 4])
def test_records_that_are_not_as_many_as_the_header_says_are_not_stored_in_another_codec(said: int) -> None:
    data = batch(3, compression=CompressionType.ZSTD)
    lying = with_header(data, record_count=said, last_offset_delta=said - 1)
    rules = ProduceRules(target_compression=CompressionType.LZ4)
    with pytest.raises(BrokerError) as caught:
        prepare_produced(lying, rules, now_ms=NOW, produce_version=9)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_missing_largest_timestamp_is_found_in_the_records() -> None:
    records, header = prepare_produced(
        with_header(GOOD, max_timestamp=0), ProduceRules(), now_ms=NOW, produce_version=9
    )
    assert header.max_timestamp == NOW + 2
    assert verify_crc(records, 0, decode_header(records))

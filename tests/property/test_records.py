"""Batches round-trip; random and mutated bytes raise only typed errors, and never go past what they claim."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.codec.compression import CompressionType
from tidelog.model.errors import BrokerError
from tidelog.records.batch import decode_header, iterate_headers, iterate_whole_headers, verify_crc
from tidelog.records.builder import NewRecord, assemble_batch, build_batch
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import Record, iterate_records
from tidelog.records.validation import ProduceRules, prepare_produced

NOW = 1_800_000_000_000
FIELD = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=8), FIELD), max_size=3).map(tuple)
NEW_RECORDS = st.lists(st.builds(NewRecord, FIELD, FIELD, st.integers(-1, 2**45), HEADERS), min_size=1, max_size=12)
STRICT = ProduceRules(validate_records=True, timestamp_before_max_ms=2**62, timestamp_after_max_ms=2**62)


@given(NEW_RECORDS, st.sampled_from(list(CompressionType)), st.integers(0, 2**50))
def test_batches_round_trip(records: list[NewRecord], codec: CompressionType, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    header = decode_header(batch)
    assert header.size_in_bytes == len(batch)
    assert verify_crc(batch, 0, header)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iterate_records(batch)) == [
        Record(base_offset + at, record.timestamp, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]


@given(NEW_RECORDS, st.sampled_from(list(CompressionType)))
def test_what_the_builder_makes_is_taken(records: list[NewRecord], codec: CompressionType) -> None:
    batch = build_batch(records, compression=codec)
    prepared, header = prepare_produced(batch, STRICT, now_ms=NOW, produce_version=9)
    assert list(iterate_records(prepared)) == list(iterate_records(batch))
    assert header.record_count == len(records)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    for consume in (
        lambda: decode_header(data),
        lambda: list(iterate_headers(data)),
        lambda: list(iterate_whole_headers(data)),
        lambda: list(iterate_records(data)),
        lambda: decode_end_txn_marker(data),
        lambda: prepare_produced(data, STRICT, now_ms=NOW, produce_version=9),
    ):
        with contextlib.suppress(BrokerError):
            consume()


@settings(max_examples=400)
@given(NEW_RECORDS, st.sampled_from(list(CompressionType)), st.data())
def test_mutated_batches_are_read_or_refused(
    records: list[NewRecord], codec: CompressionType, data: st.DataObject
) -> None:
    """The payload is changed and the checksum made right again: what a malicious producer can do."""
    batch = build_batch(records)
    payload = bytearray(batch[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    header = decode_header(batch).replace(attributes=int(codec))
    hostile = assemble_batch(header, bytes(payload))
    try:
        found = list(iterate_records(hostile))
    except BrokerError:
        return
    assert len(found) == len(records)
    assert sum(len(record.key or b"") + len(record.value or b"") for record in found) <= len(payload)


@settings(max_examples=400)
@given(NEW_RECORDS, st.data())
def test_mutated_bytes_never_pass_as_produced(records: list[NewRecord], data: st.DataObject) -> None:
    """Without a new checksum every change behind it is noticed; before it only offset, epoch and length can change."""
    batch = bytearray(build_batch(records))
    position = data.draw(st.integers(12, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    try:
        prepare_produced(bytes(batch), STRICT, now_ms=NOW, produce_version=9)
    except BrokerError:
        return
    # The partition leader epoch is the broker's to set and not covered.
    assert 12 <= position < 16

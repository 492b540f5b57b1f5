"""Coordinator batches against the general builder and reader."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.codec.compression import CompressionType
from tidelog.coordination.batching import encode_batch, read_batches
from tidelog.coordination.log import LoadedBatch
from tidelog.model.errors import BrokerError
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker, build_leader_change

records_of_a_batch = st.lists(
    st.tuples(st.binary(max_size=100), st.none() | st.binary(max_size=300)), min_size=1, max_size=80
)


@given(records_of_a_batch, st.integers(0, 2**48), st.sampled_from([(-1, -1), (7, 3)]))
def test_what_is_written_is_what_the_builder_writes(
    records: list[tuple[bytes, bytes | None]], timestamp_ms: int, producer: tuple[int, int]
) -> None:
    batch = encode_batch(records, timestamp_ms, *producer)
    assert batch == build_batch(
        [NewRecord(key, value, timestamp_ms) for key, value in records],
        producer_id=producer[0],
        producer_epoch=producer[1],
        transactional=producer[0] >= 0,
    )
    expected = [(offset, key, value) for offset, (key, value) in enumerate(records)]
    owner = producer[0]
    twice = list(read_batches(batch + batch + batch[:-1]))
    assert twice == [(len(records), LoadedBatch(expected, owner))] * 2


@pytest.mark.parametrize("compression", list(CompressionType))
def test_batches_of_others_are_read_too(compression: CompressionType) -> None:
    given = [NewRecord(None, b"v", 5, (("h", b"x"),)), NewRecord(b"k", None, 900_000), NewRecord(b"", b"", 3)]
    batch = build_batch(given, base_offset=40, compression=compression)
    expected = [(40, None, b"v"), (41, b"k", None), (42, b"", b"")]
    assert list(read_batches(batch)) == [(43, LoadedBatch(expected))]


@pytest.mark.parametrize("commit", [True, False])
def test_control_batches(commit: bool) -> None:
    marker = build_end_txn_marker(
        producer_id=9, producer_epoch=1, commit=commit, coordinator_epoch=0, timestamp=1, base_offset=5
    )
    leader_change = build_leader_change(leader_id=1, voters=(1,), granting_voters=(1,), timestamp=1, leader_epoch=0)
    assert list(read_batches(marker)) == [(6, LoadedBatch((), 9, commit))]
    assert [batch for _, batch in read_batches(leader_change)] == [None]


def test_bytes_that_are_no_batch() -> None:
    with pytest.raises(BrokerError):
        list(read_batches(bytes(100)))


@given(records_of_a_batch, st.data())
def test_damage_raises_a_broker_error_or_gives_records(
    records: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, 0))
    batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BrokerError):
        list(read_batches(bytes(batch)))

"""Control batches, byte for byte where Kafka's readers look."""

import struct

import pytest

from tidelog.records.batch import InvalidRecord, decode_header
from tidelog.records.builder import NewRecord, build_batch, build_batch_with_offsets
from tidelog.records.control import (
    ControlType,
    EndTransactionMarker,
    LeaderChange,
    build_end_txn_marker,
    build_leader_change,
    decode_control_type,
    decode_end_txn_marker,
    decode_leader_change,
)
from tidelog.records.record import iterate_records


@pytest.mark.parametrize("commit", [True, False])
def test_marker(commit: bool) -> None:
    batch = build_end_txn_marker(
        producer_id=9, producer_epoch=2, commit=commit, coordinator_epoch=4, timestamp=777, base_offset=30
    )
    header = decode_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert header.base_sequence == -1
    (record,) = iterate_records(batch)
    assert record.key == struct.pack(">hh", 0, int(commit))
    assert record.value == struct.pack(">hi", 0, 4)
    assert decode_end_txn_marker(batch) == EndTransactionMarker(9, 2, commit, 4, 777, 30)


def test_leader_change() -> None:
    batch = build_leader_change(leader_id=1, voters=(1, 2, 3), granting_voters=(1, 3), timestamp=5, leader_epoch=8)
    assert decode_header(batch).partition_leader_epoch == 8
    assert decode_end_txn_marker(batch) is None
    (record,) = iterate_records(batch)
    assert decode_control_type(record.key) == ControlType.LEADER_CHANGE
    assert record.value is not None
    assert decode_leader_change(record.value) == LeaderChange(1, (1, 2, 3), (1, 3))
    assert (
        record.value
        == struct.pack(">hi", 0, 1)
        + b"\x04"
        + b"".join(struct.pack(">ib", voter, 0) for voter in (1, 2, 3))
        + b"\x03"
        + struct.pack(">ib", 1, 0)
        + struct.pack(">ib", 3, 0)
        + b"\x00"
    )


def test_an_emptied_marker_says_nothing() -> None:
    batch = build_end_txn_marker(producer_id=9, producer_epoch=2, commit=True, coordinator_epoch=4, timestamp=777)
    assert decode_end_txn_marker(build_batch_with_offsets(decode_header(batch), [])) is None


def test_unknown_types_are_skipped_and_damage_refused() -> None:
    unknown = build_batch([NewRecord(struct.pack(">hh", 0, 99), b"", 0)], control=True)
    assert decode_end_txn_marker(unknown) is None
    for key, value in (
        (None, b""),
        (b"\x00", b""),
        (struct.pack(">hh", 0, 1), b"\x00"),
        (struct.pack(">hh", 0, 0), None),
    ):
        with pytest.raises(InvalidRecord):
            decode_end_txn_marker(build_batch([NewRecord(key, value, 0)], control=True))
    with pytest.raises(InvalidRecord):
        decode_end_txn_marker(build_batch([NewRecord(b"", b"", 0)]))
    with pytest.raises(InvalidRecord):
        decode_leader_change(b"\x00\x00\x00\x00\x00\x01\x09\x00")

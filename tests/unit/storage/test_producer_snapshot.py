"""Producer snapshots: Kafka's bytes, and every way to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.codec.crc32c import crc32c
from tidelog.runtime.disk import Folder
from tidelog.storage.errors import CorruptSnapshot
from tidelog.storage.producer_snapshot import (
    EMPTY_SIZE,
    ProducerSnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    write_snapshot,
)

ENTRY = ProducerSnapshotEntry(
    producer_id=0x0102030405060708,
    epoch=9,
    last_sequence=10,
    last_offset=11,
    offset_delta=3,
    timestamp=1_700_000_000_000,
    coordinator_epoch=-1,
    txn_first_offset=-1,
)


def test_the_bytes_are_kafkas() -> None:
    body = bytes.fromhex(
        "00000001"  # one entry
        "0102030405060708 0009 0000000a 000000000000000b 00000003 0000018bcfe56800 ffffffff ffffffffffffffff"
    )
    assert encode_snapshot([ENTRY]) == bytes.fromhex("0001") + crc32c(body).to_bytes(4, "big") + body
    assert encode_snapshot([]) == bytes.fromhex("0001 48674bc7 00000000")
    assert len(encode_snapshot([])) == EMPTY_SIZE


def test_the_file_is_named_by_its_offset_and_read_back(tmp_path: Path) -> None:
    entries = [ENTRY, ENTRY._replace(producer_id=5, txn_first_offset=7)]
    write_snapshot(Folder(str(tmp_path)), 1234, entries)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000001234.snapshot"]
    assert read_snapshot(str(tmp_path), 1234) == entries


def test_a_missing_file_counts_as_damage(tmp_path: Path) -> None:
    with pytest.raises(CorruptSnapshot):
        read_snapshot(str(tmp_path), 5)


def test_no_byte_can_change_unnoticed() -> None:
    good = encode_snapshot([ENTRY])
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(bad))


def test_no_length_but_the_right_one_is_taken() -> None:
    good = encode_snapshot([ENTRY])
    for size in range(len(good)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(good[:size])
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(good + b"\x00")


def test_a_lying_count_with_a_right_checksum_is_refused() -> None:
    body = (2).to_bytes(4, "big") + encode_snapshot([ENTRY])[10:]
    with pytest.raises(CorruptSnapshot, match="do not fill"):
        decode_snapshot(bytes.fromhex("0001") + crc32c(body).to_bytes(4, "big") + body)

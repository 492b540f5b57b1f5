"""The time index: its bytes, when entries are made, lookups, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndex
from tidelog.storage.time_index import TimeIndex


def fresh_index(tmp_path: Path) -> TimeIndex:
    return TimeIndex(str(tmp_path / "x.timeindex"), 1000, pinned=True, fresh=True)


def test_entries_are_timestamp_and_relative_offset_big_endian(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.maybe_append(0x0102030405060708, 1009)
    index.save()
    assert (tmp_path / "x.timeindex").read_bytes() == bytes.fromhex("0102030405060708 00000009")


def test_only_a_later_timestamp_makes_an_entry(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.maybe_append(-1, 1001)
    index.maybe_append(10, 1009)
    index.maybe_append(10, 1019)
    index.maybe_append(9, 1029)
    index.maybe_append(11, 1039)
    assert index.entries() == [(10, 1009), (11, 1039)]


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(0, 1000), (9, 1000), (10, 1009), (15, 1009), (20, 1019), (99, 1019)]
)
def test_lookup_gives_the_last_entry_not_later(tmp_path: Path, timestamp: int, offset: int) -> None:
    index = fresh_index(tmp_path)
    index.maybe_append(10, 1009)
    index.maybe_append(20, 1019)
    assert index.lookup(timestamp) == offset


def test_the_last_entry_is_read_without_loading(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    assert index.last_entry() == (-1, 1000)
    index.maybe_append(10, 1009)
    index.maybe_append(20, 1019)
    index.save()
    other = TimeIndex(index.path, 1000)
    assert other.last_entry() == (20, 1019)
    with pytest.raises(AssertionError):
        other.entries()


def test_truncating_forgets_entries_and_the_last_timestamp(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.maybe_append(10, 1009)
    index.maybe_append(20, 1019)
    index.save()
    index.truncate_to(1019)
    assert index.entries() == [(10, 1009)]
    assert index.last_timestamp == 10
    assert (tmp_path / "x.timeindex").stat().st_size == 12
    index.truncate_to(1000)
    assert index.last_timestamp == -1
    index.maybe_append(5, 1001)
    index.save()
    reopened = TimeIndex(index.path, 1000)
    reopened.load()
    assert reopened.entries() == [(5, 1001)]


@pytest.mark.parametrize(
    "content",
    [
        bytes(11),
        pytest.param(bytes.fromhex("000000000000000a 00000001") + bytes(12), id="preallocated tail"),
        pytest.param(bytes.fromhex("000000000000000a 00000001 000000000000000a 00000002"), id="same timestamp twice"),
        pytest.param(bytes.fromhex("000000000000000a 00000002 000000000000000b 00000001"), id="offsets descend"),
        pytest.param(bytes.fromhex("ffffffffffffff00 00000002"), id="negative timestamp"),
    ],
)
def test_an_index_that_cannot_be_right_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.timeindex").write_bytes(content)
    with pytest.raises(CorruptIndex):
        TimeIndex(str(tmp_path / "x.timeindex"), 1000).load()


def test_a_missing_index_is_refused(tmp_path: Path) -> None:
    index = TimeIndex(str(tmp_path / "x.timeindex"), 1000)
    with pytest.raises(CorruptIndex):
        index.load()
    with pytest.raises(CorruptIndex):
        index.last_entry()

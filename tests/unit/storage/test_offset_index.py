"""The offset index: its bytes, its lookups at every edge, and what counts as damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndex
from tidelog.storage.files import Residency
from tidelog.storage.offset_index import OffsetIndex

LOG_SIZE = 100_000


def fresh_index(tmp_path: Path, base_offset: int = 1000) -> OffsetIndex:
    return OffsetIndex(str(tmp_path / "x.index"), base_offset, pinned=True, fresh=True)


def loaded_index(tmp_path: Path, base_offset: int = 1000) -> OffsetIndex:
    index = OffsetIndex(str(tmp_path / "x.index"), base_offset)
    index.load(LOG_SIZE)
    return index


def test_entries_are_relative_offset_and_position_big_endian(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 4096)
    index.append(1000 + 0x01020304, 0x0A0B0C0D)
    index.save()
    assert (tmp_path / "x.index").read_bytes() == bytes.fromhex("00000009 00001000 01020304 0a0b0c0d")


def test_saving_appends_only_what_is_new(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    for number in range(1, 4):
        index.append(1000 + number, number * 100)
        index.save()
        assert (tmp_path / "x.index").stat().st_size == 8 * number
    assert index.unsaved == 0
    assert loaded_index(tmp_path).entries() == [(1001, 100), (1002, 200), (1003, 300)]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (1000, (1000, 0)),
        (1008, (1000, 0)),
        (1009, (1009, 500)),
        (1010, (1009, 500)),
        (1019, (1019, 900)),
        (99_999, (1019, 900)),
    ],
)
def test_lookup_finds_the_last_entry_not_above_the_offset(
    tmp_path: Path, offset: int, expected: tuple[int, int]
) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 500)
    index.append(1019, 900)
    assert index.lookup(offset) == expected


def test_lookup_sees_entries_that_are_not_saved(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 500)
    assert not (tmp_path / "x.index").exists()
    assert index.lookup(1009) == (1009, 500)


@pytest.mark.parametrize(
    ("position", "boundary", "offset_after"),
    [(0, 0, 1009), (499, 0, 1009), (500, 500, 1009), (501, 500, 1019), (900, 900, 1019), (901, 900, None)],
)
def test_positions_lead_back_to_batches(tmp_path: Path, position: int, boundary: int, offset_after: int | None) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 500)
    index.append(1019, 900)
    assert index.boundary_at_or_before(position) == boundary
    assert index.offset_at_or_after(position) == offset_after


@pytest.mark.parametrize(("offset", "left"), [(1000, 0), (1009, 0), (1010, 1), (1019, 1), (1020, 2)])
def test_truncating_forgets_the_offset_and_all_above_in_the_file_too(tmp_path: Path, offset: int, left: int) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 500)
    index.append(1019, 900)
    index.save()
    index.truncate_to(offset)
    assert len(index) == left
    assert (tmp_path / "x.index").stat().st_size == 8 * left
    index.append(1030, 1200)
    index.save()
    assert loaded_index(tmp_path).last_entry() == (1030, 1200)


@pytest.mark.parametrize(
    "content",
    [
        bytes(7),
        bytes(9),
        pytest.param(bytes(8), id="preallocated and never written"),
        pytest.param(bytes.fromhex("0000000900001000") + bytes(8), id="preallocated tail"),
        pytest.param((9).to_bytes(4, "big") + LOG_SIZE.to_bytes(4, "big"), id="position behind the log"),
        pytest.param(bytes.fromhex("00000009 00001000 0000000a 00000100"), id="positions descend"),
    ],
)
def test_an_index_that_cannot_be_right_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.index").write_bytes(content)
    with pytest.raises(CorruptIndex):
        loaded_index(tmp_path)


def test_a_missing_index_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(CorruptIndex, match="missing"):
        loaded_index(tmp_path)
    (tmp_path / "x.index").write_bytes(b"")
    assert loaded_index(tmp_path).lookup(5000) == (1000, 0)


def test_only_saved_entries_of_closed_segments_leave_memory(tmp_path: Path) -> None:
    index = fresh_index(tmp_path)
    index.append(1009, 500)
    index.evict()
    assert index.lookup(1009) == (1009, 500), "pinned"
    index.unpin()
    index.evict()
    assert index.lookup(1009) == (1009, 500), "not saved"
    index.save()
    index.evict()
    with pytest.raises(AssertionError):
        index.lookup(1009)
    index.load(LOG_SIZE)
    assert index.lookup(1009) == (1009, 500)


class Held:
    def __init__(self) -> None:
        self.recently_used = False
        self.evictions = 0

    def evict(self) -> None:
        self.evictions += 1


def test_residency_evicts_the_unused_first_and_keeps_its_bound() -> None:
    residency = Residency(3)
    first, second, third, fourth = (Held() for _ in range(4))
    for held in (first, second, third):
        residency.admit(held)
        held.recently_used = False
    first.recently_used = True
    residency.admit(fourth)
    assert [held.evictions for held in (first, second, third, fourth)] == [0, 1, 0, 0]
    assert residency.held == 3


def test_residency_evicts_even_when_all_are_in_use() -> None:
    residency = Residency(2)
    everyone = [Held() for _ in range(10)]
    for held in everyone:
        residency.admit(held)
        assert residency.held <= 2
    assert sum(held.evictions for held in everyone) == 8
    residency.discard(everyone[-1])
    residency.discard(everyone[-1])
    assert residency.held == 1

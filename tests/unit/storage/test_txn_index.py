"""The transaction index: its bytes and what a reader of committed data gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndex
from tidelog.storage.txn_index import AbortedTransaction, TxnIndex

# The second was still open when the first was aborted.
FIRST = AbortedTransaction(7, 1000, 1010, 1005)
SECOND = AbortedTransaction(8, 1005, 1020, 1021)


def index_of(tmp_path: Path, *entries: AbortedTransaction) -> TxnIndex:
    index = TxnIndex(str(tmp_path / "x.txnindex"), 1000, fresh=True)
    for entry in entries:
        index.append(entry)
    index.save()
    return index


def test_entries_are_version_producer_offsets_big_endian(tmp_path: Path) -> None:
    index_of(tmp_path, AbortedTransaction(0x0102030405060708, 1000, 1001, 1002))
    assert (tmp_path / "x.txnindex").read_bytes() == bytes.fromhex(
        "0000 0102030405060708 00000000000003e8 00000000000003e9 00000000000003ea"
    )


def test_no_file_without_an_abort(tmp_path: Path) -> None:
    index_of(tmp_path)
    assert not (tmp_path / "x.txnindex").exists()
    assert TxnIndex(str(tmp_path / "x.txnindex"), 1000).load() == []


def test_entries_survive(tmp_path: Path) -> None:
    index = index_of(tmp_path, FIRST)
    index.append(SECOND)
    index.save()
    assert TxnIndex(index.path, 1000).load() == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("start", "end", "expected", "complete"),
    [
        (0, 1000, [], True),
        (1000, 1001, [FIRST], True),
        (1010, 1011, [FIRST, SECOND], True),
        (1011, 1012, [SECOND], True),
        (1000, 1006, [FIRST, SECOND], True),
        (1000, 5000, [FIRST, SECOND], False),
        (1021, 5000, [], False),
    ],
)
def test_readers_get_what_overlaps_their_fetch(
    tmp_path: Path, start: int, end: int, expected: list[AbortedTransaction], complete: bool
) -> None:
    found: list[AbortedTransaction] = []
    assert index_of(tmp_path, FIRST, SECOND).collect(start, end, found) is complete
    assert found == expected


@pytest.mark.parametrize(("offset", "left"), [(1010, []), (1011, [FIRST]), (1020, [FIRST]), (1021, [FIRST, SECOND])])
def test_truncating_forgets_markers_at_or_above_the_offset(
    tmp_path: Path, offset: int, left: list[AbortedTransaction]
) -> None:
    index = index_of(tmp_path, FIRST, SECOND)
    index.truncate_to(offset)
    assert index.load() == left
    assert TxnIndex(index.path, 1000).load() == left


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        pytest.param(lambda content: b"\x00\x01" + content[2:], id="unknown version"),
        pytest.param(lambda content: content[34:] + content[:34], id="out of order"),
        pytest.param(
            lambda content: content[:10] + content[18:26] + content[10:18] + content[26:], id="ends before it begins"
        ),
    ],
)
def test_damage_is_refused(tmp_path: Path, damage: object) -> None:
    index = index_of(tmp_path, FIRST, SECOND)
    path = Path(index.path)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(CorruptIndex):
        TxnIndex(index.path, 1000).load()

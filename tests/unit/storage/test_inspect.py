"""Every kind of damage is found offline, an intact log has none, and nothing is changed by looking."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.storage.partition_log import NOW, append, end_transaction, open_log

from tidelog.storage.inspect import find_logs, verify_log

LOG = "00000000000000000000.log"
SECOND = "00000000000000000020.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two closed segments and an active one, with entries in all indexes, an aborted transaction and a snapshot."""
    log = open_log(tmp_path, index_interval_bytes=200)
    for at in range(20):
        append(log, [(b"key", b"v" * 100)], timestamp=NOW + at)
    log.writer.roll()
    append(log, [(b"key", b"v")], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 4, commit=False)
    for at in range(20):
        append(log, [(b"key", b"v" * 100), (b"key", b"w")], timestamp=NOW + 100 + at)
    log.writer.roll()
    append(log, [(b"key", b"v")])
    log.close()
    return tmp_path / "topic-0"


def damage(path: Path) -> list[str]:
    return [str(problem) for problem in verify_log(str(path), open_records=True).problems if problem.is_damage]


def rewrite(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def test_an_intact_log(partition: Path) -> None:
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    report = verify_log(str(partition), open_records=True)
    assert report.problems == ()
    assert (report.segments, report.batches, report.records) == (3, 43, 63)
    assert (report.first_offset, report.next_offset) == (0, 63)
    assert report.size_bytes == sum(path.stat().st_size for path in partition.glob("*.log"))
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_logs_are_found_below_a_data_directory(partition: Path) -> None:
    assert find_logs(str(partition)) == [str(partition)]
    (partition.parent / "empty").mkdir()
    assert find_logs(str(partition.parent)) == [str(partition)]


def flip(name: str, position: int) -> Callable[[Path], None]:
    def apply(partition: Path) -> None:
        rewrite(partition / name, lambda content: content.__setitem__(position, content[position] ^ 1))

    return apply


def cut(name: str, count: int) -> Callable[[Path], None]:
    def apply(partition: Path) -> None:
        rewrite(partition / name, lambda content: content.__delitem__(slice(len(content) - count, None)))

    return apply


def grow(name: str, data: bytes) -> Callable[[Path], None]:
    def apply(partition: Path) -> None:
        rewrite(partition / name, lambda content: content.extend(data))

    return apply


def put(name: str, position: int, data: bytes) -> Callable[[Path], None]:
    def apply(partition: Path) -> None:
        rewrite(partition / name, lambda content: content.__setitem__(slice(position, position + len(data)), data))

    return apply


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped bit in a record": (flip(LOG, 100), "checksum"),
    "torn tail": (cut("00000000000000000062.log", 3), "cut short"),
    "garbage tail": (grow(SECOND, bytes(100)), "magic 0"),
    "length that lies": (put(LOG, 8, struct.pack(">i", 2**30)), "cut short"),
    "offset that goes back": (put(SECOND, 0, struct.pack(">q", 5)), "where 20 or more was due"),
    "segment that overlaps": (
        lambda path: (path / LOG).rename(path / "00000000000000000021.log") and None,
        "a batch at offset 0",
    ),
    "index that points between batches": (
        put("00000000000000000000.index", 4, struct.pack(">I", 7)),
        "no batch begins",
    ),
    "index with a wrong offset": (put("00000000000000000000.index", 0, struct.pack(">I", 1)), "ends at"),
    "index cut in an entry": (cut("00000000000000000000.index", 3), "not a multiple"),
    "time index with a wrong time": (
        put("00000000000000000000.timeindex", 0, struct.pack(">q", NOW + 9)),
        "the newest",
    ),
    "time index beyond the segment": (
        put("00000000000000000000.timeindex", 8, struct.pack(">I", 900)),
        "does not reach",
    ),
    "transaction index of another producer": (
        put("00000000000000000020.txnindex", 2, struct.pack(">q", 5)),
        "no abort marker",
    ),
    "transaction index cut": (cut("00000000000000000020.txnindex", 1), "not a multiple"),
    "snapshot": (flip("00000000000000000062.snapshot", 20), "checksum"),
    "leader epochs": (lambda path: (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n") and None, "announces"),
    "leader epochs that go back": (
        lambda path: (path / "leader-epoch-checkpoint").write_text("0\n2\n3 5\n2 9\n") and None,
        "follows 3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_found(partition: Path, case: str) -> None:
    apply, expected = CASES[case]
    apply(partition)
    found = damage(partition)
    assert any(expected in line for line in found), found
    assert all("\n" not in line for line in found)


def test_leftovers_are_remarks(partition: Path) -> None:
    (partition / "00000000000000000000.log.cleaned").write_bytes(b"")
    (partition / "00000000000000000099.index").write_bytes(b"")
    (partition / "00000000000000000000.index").unlink()
    report = verify_log(str(partition))
    assert len(report.problems) == 3
    assert damage(partition) == []


def test_an_index_kafka_has_open_is_understood(partition: Path) -> None:
    """Kafka gives the indexes of its active segment their full size, filled with zeros."""
    with (partition / "00000000000000000062.index").open("ab") as file:
        file.write(bytes(8000))
    with (partition / "00000000000000000062.timeindex").open("ab") as file:
        file.write(bytes(12000))
    assert damage(partition) == []

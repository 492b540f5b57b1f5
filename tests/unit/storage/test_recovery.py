"""Opening after a crash: torn tails, garbage, preallocated files, damaged indexes and snapshots, leftovers."""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest
from tests.unit.storage.log_building import (
    append,
    append_many,
    batch_of,
    crash,
    data,
    names_in,
    offsets_of,
    open_log,
)

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.batch import decode_header
from tidelog.storage.errors import CorruptLog
from tidelog.storage.log import Log, LogHint

BATCH = len(batch_of(10))
LOG = f"{0:020d}.log"


def crashed_log(directory: Path, batches: int = 5, **settings: object) -> Path:
    log = open_log(directory, **settings)
    append_many(log, batches, 10, size=10)
    crash(log)
    return directory / LOG


def damage(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def extents(count: int, start: int = 0) -> list[tuple[int, int]]:
    return [(number * 10, number * 10 + 9) for number in range(start, count)]


def test_everything_appended_is_there_after_kill(tmp_path: Path) -> None:
    crashed_log(tmp_path / "log")
    log = open_log(tmp_path / "log", clean=False)
    assert log.was_recovered
    assert offsets_of(log) == extents(5)
    assert append(log, batch_of(1)).base_offset == 50


@pytest.mark.parametrize("kept", [0, 1, 11, 12, 16, 60, 61, BATCH - 1])
def test_a_torn_tail_is_cut_and_named(tmp_path: Path, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    path = crashed_log(tmp_path / "log")
    os.truncate(path, 4 * BATCH + kept)
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        log = open_log(tmp_path / "log", clean=False)
    assert log.log_end_offset == 40
    assert path.stat().st_size == 4 * BATCH
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (1 if kept else 0)
    if kept:
        assert f"cut {kept} bytes" in lines[0]
        assert "ends at offset 40" in lines[0]
        assert str(path) in lines[0]
    append_many(log, 1, 10, size=10)
    assert offsets_of(log) == extents(5)


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"\x00" * 5000, "length 0"),
        (b"\xff" * 5000, "magic -1"),
        (random.Random(5).randbytes(50), "too few"),
        (batch_of(10, base_offset=50)[:-1], "cut short"),
        (batch_of(10, base_offset=49), "where 50 or more was due"),
        (batch_of(10, base_offset=2**31), "too far"),
        (batch_of(10, base_offset=50)[:-1] + b"!", "checksum"),
    ],
)
def test_garbage_behind_the_last_batch_is_cut(
    tmp_path: Path, garbage: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = crashed_log(tmp_path / "log")
    good = path.read_bytes()
    path.write_bytes(good + garbage)
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        log = open_log(tmp_path / "log", clean=False)
    assert reason in caplog.text
    assert path.read_bytes() == good
    assert (log.log_end_offset, log.size_bytes) == (50, len(good))
    assert offsets_of(log) == extents(5)


@pytest.mark.parametrize("clean", [True, False])
def test_the_size_of_a_preallocated_file_never_becomes_the_end_of_the_log(tmp_path: Path, clean: bool) -> None:
    path = crashed_log(tmp_path / "log")
    os.truncate(path, 1 << 20)
    log = open_log(tmp_path / "log", clean=clean, preallocate=True)
    assert (log.log_end_offset, log.size_bytes) == (50, 5 * BATCH)
    assert path.stat().st_size == 5 * BATCH
    assert offsets_of(log) == extents(5)
    assert append(log, batch_of(1)).base_offset == 50


def test_an_empty_preallocated_file_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / LOG).write_bytes(bytes(1 << 20))
    log = open_log(tmp_path / "log", clean=False, preallocate=True)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_the_log_ends_before_the_first_wrong_batch_even_if_good_ones_follow(tmp_path: Path) -> None:
    path = crashed_log(tmp_path / "log")
    damage(path, 2 * BATCH + 70, b"\xee")
    log = open_log(tmp_path / "log", clean=False)
    assert offsets_of(log) == extents(2)
    assert path.stat().st_size == 2 * BATCH


def test_checksums_below_the_recovery_point_are_trusted(tmp_path: Path) -> None:
    path = crashed_log(tmp_path / "log")
    damage(path, 1 * BATCH + 70, b"\xee")
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert open_log(tmp_path / "log", clean=False, recovery_point=20).log_end_offset == 50
    assert open_log(tmp_path / "copy", clean=False, recovery_point=19).log_end_offset == 10


def test_flushed_batches_that_are_gone_are_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = crashed_log(tmp_path / "log")
    os.truncate(path, 3 * BATCH)
    damage(path, 2 * BATCH + 16, b"\x05")
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        log = open_log(tmp_path / "log", clean=False, recovery_point=50)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "flushed up to 50" in caplog.text
    assert log.recovery_point == log.log_end_offset == 20


def three_segments(directory: Path) -> Log:
    """[0, 20), [20, 40), [40, 50)."""
    log = open_log(directory, segment_bytes=2 * BATCH)
    append_many(log, 5, 10, size=10)
    assert [segment.base_offset for segment in log.segments] == [0, 20, 40]
    return log


@pytest.mark.parametrize("base_offset", [0, 20])
@pytest.mark.parametrize("kind", ["flipped", "torn"])
def test_damage_in_a_closed_segment_takes_the_partition_offline_and_changes_no_log_file(
    tmp_path: Path, base_offset: int, kind: str
) -> None:
    crash(three_segments(tmp_path / "log"))
    path = tmp_path / "log" / f"{base_offset:020d}.log"
    if kind == "torn":
        os.truncate(path, 2 * BATCH - 5)
    else:
        damage(path, BATCH + 80, b"\xee")
    before = {file.name: file.read_bytes() for file in (tmp_path / "log").glob("*.log")}
    for _ in range(2):
        with pytest.raises(CorruptLog) as refused:
            open_log(tmp_path / "log", clean=False, segment_bytes=2 * BATCH)
        assert str(path) in refused.value.message
    assert {file.name: file.read_bytes() for file in (tmp_path / "log").glob("*.log")} == before


def test_closed_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    crash(three_segments(tmp_path / "log"))
    damage(tmp_path / "log" / LOG, BATCH + 80, b"\xee")
    log = open_log(tmp_path / "log", clean=False, recovery_point=20, segment_bytes=2 * BATCH)
    assert log.log_end_offset == 50


def test_a_torn_segment_followed_by_empty_ones_is_the_last(tmp_path: Path) -> None:
    crash(three_segments(tmp_path / "log"))
    os.truncate(tmp_path / "log" / f"{20:020d}.log", BATCH + 5)
    os.truncate(tmp_path / "log" / f"{40:020d}.log", 0)
    log = open_log(tmp_path / "log", clean=False, segment_bytes=2 * BATCH)
    assert offsets_of(log) == extents(3)
    assert f"{40:020d}.log" not in names_in(tmp_path / "log")
    append_many(log, 3, 10, size=10)
    assert offsets_of(log) == extents(6)


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_segment_left_by_a_roll_that_failed_is_not_the_end(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 5, 10, size=10)
    log.close(clean=clean)
    (tmp_path / "log" / f"{30:020d}.log").touch()
    log = open_log(tmp_path / "log", clean=clean)
    assert offsets_of(log) == extents(5)
    assert len(log.segments) == 1


def test_a_crash_right_after_a_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 2, 10, size=10)
    log.writer.roll()
    crash(log)
    for clean in (False, True):
        log = open_log(tmp_path / "log", clean=clean)
        assert (log.log_end_offset, len(log.segments)) == (20, 2)
    append_many(log, 1, 10, size=10)
    assert offsets_of(log) == extents(3)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["missing", "empty", "short", "odd size", "zeros", "garbage", "too long"])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes_are_made_again(tmp_path: Path, clean: bool, harm: str, kind: str) -> None:
    settings = {"segment_bytes": 20 * BATCH, "index_interval_bytes": 2 * BATCH}
    log = open_log(tmp_path / "log", **settings)
    for number in range(50):
        append(log, batch_of(10, timestamp=1000 * number))
    log.close()
    paths = sorted((tmp_path / "log").glob(f"*.{kind}"))
    good = [path.read_bytes() for path in paths]
    assert len(paths) == 3
    for path, content in zip(paths, good, strict=True):
        if harm == "missing":
            path.unlink()
            continue
        path.write_bytes(
            {
                "empty": b"",
                "short": content[: len(content) // 24 * 12 if kind == "timeindex" else len(content) // 16 * 8],
                "odd size": content[:-1],
                "zeros": bytes(len(content)),
                "garbage": os.urandom(len(content)),
                "too long": content + bytes(24_000),
            }[harm]
        )
    log = open_log(tmp_path / "log", clean=clean, **settings)
    assert offsets_of(log) == extents(50)
    for number in (0, 3, 19, 20, 33, 49):
        assert log.reader.offset_for_timestamp(1000 * number) == (1000 * number, 10 * number, 0)
    if not clean:
        log.close()
        assert [path.read_bytes() for path in paths] == good


@pytest.mark.parametrize("harm", ["missing", "damaged", "of the future"])
def test_producers_are_known_without_their_snapshot(tmp_path: Path, harm: str) -> None:
    log = open_log(tmp_path / "log", segment_bytes=3 * len(data(7, 0, 0)))
    for number in range(10):
        append(log, data(7, 0, number))
    known = log.producer_state.snapshot()
    assert len(log.segments) == 4
    log.close()
    snapshots = sorted((tmp_path / "log").glob("*.snapshot"))
    assert [path.name for path in snapshots] == [f"{offset:020d}.snapshot" for offset in (3, 6, 9, 10)]
    for path in snapshots:
        if harm == "missing":
            path.unlink()
        elif harm == "damaged":
            damage(path, 20, b"\xee")
        else:
            path.rename(path.with_name(f"{int(path.stem) + 50:020d}.snapshot"))
    log = open_log(tmp_path / "log")
    assert log.producer_state.snapshot() == known
    assert append(log, data(7, 0, 9)).duplicate
    assert not append(log, data(7, 0, 10)).duplicate
    log.close()
    assert f"{60:020d}.snapshot" not in names_in(tmp_path / "log")


@pytest.mark.parametrize("recovery_point", [0, 3, 7, 10])
def test_producers_are_known_after_a_crash(tmp_path: Path, recovery_point: int) -> None:
    log = open_log(tmp_path / "log", segment_bytes=3 * len(data(7, 0, 0)))
    for number in range(10):
        append(log, data(7, 0, number))
    known = log.producer_state.snapshot()
    crash(log)
    log = open_log(tmp_path / "log", clean=False, recovery_point=recovery_point)
    assert log.producer_state.snapshot() == known
    assert append(log, data(7, 0, 9)).duplicate


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_lost_snapshot_is_written_again_before_its_batches_go(tmp_path: Path, clean: bool, harm: str) -> None:
    """Lost snapshot, then retention, then truncation: what is left of the log no longer tells of the producer."""
    log = open_log(tmp_path / "log")
    append(log, data(7, 0, 0, count=6))
    log.writer.roll()
    append_many(log, 2, 10, size=10)
    log.close(clean=clean)
    for path in (tmp_path / "log").glob("*.snapshot"):
        if harm == "missing":
            path.unlink()
        else:
            damage(path, 20, b"\xee")
    log = open_log(tmp_path / "log", clean=clean)
    log.rearranger.delete_oldest(1)
    log.rearranger.truncate_to(6)
    assert log.log_end_offset == 6
    with pytest.raises(BrokerError) as refused:
        append(log, data(7, 0, 7))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, data(7, 0, 0, count=6)).duplicate


def test_what_was_cut_is_forgotten_by_producers_and_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, data(7, 0, 0), leader_epoch=1)
    size = log.size_bytes
    append(log, data(7, 0, 1), leader_epoch=2)
    crash(log)
    os.truncate(tmp_path / "log" / LOG, size + 20)
    log = open_log(tmp_path / "log", clean=False)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0)]
    assert not append(log, data(7, 0, 1), leader_epoch=3).duplicate
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (3, 1)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"garbage\n"])
def test_epochs_are_read_from_the_batches_when_their_file_is_no_use(
    tmp_path: Path, clean: bool, content: bytes | None
) -> None:
    log = open_log(tmp_path / "log")
    for epoch in (1, 1, 4):
        append(log, batch_of(10), leader_epoch=epoch)
    log.close()
    checkpoint = tmp_path / "log" / "leader-epoch-checkpoint"
    if content is None:
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(content)
    log = open_log(tmp_path / "log", clean=clean)
    if content is None and clean:
        assert log.leader_epochs.entries == (), "a log that never had the file has no epochs, as in Kafka"
        return
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (4, 20)]


def test_a_clean_stop_that_was_none_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 5, 10, size=10)
    log.close()
    os.truncate(tmp_path / "log" / LOG, 5 * BATCH - 1)
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        log = open_log(tmp_path / "log")
    assert log.log_end_offset == 40
    assert "not cleanly stopped after all" in caplog.text


def test_a_hint_saves_the_scan_and_a_stale_one_is_ignored(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 5, 10, size=10)
    hint = log.hint
    log.close()
    assert hint == LogHint(0, 5 * BATCH, 50)
    assert open_log(tmp_path / "log", hint=hint).log_end_offset == 50
    believed = hint._replace(log_end_offset=77)
    assert open_log(tmp_path / "log", hint=believed).log_end_offset == 77, "the hint is what was used"
    log = open_log(tmp_path / "log")
    append_many(log, 1, 10, size=10)
    log.close()
    assert open_log(tmp_path / "log", hint=believed).log_end_offset == 60
    assert open_log(tmp_path / "log", clean=False, hint=log.hint._replace(log_end_offset=77)).log_end_offset == 60


def test_opening_cleanly_opens_no_log_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 5, 10, size=10)
    log.close()
    log = open_log(tmp_path / "log", hint=log.hint)
    assert [segment.file for segment in log.segments] == [None]
    assert offsets_of(log) == extents(5)


def test_a_start_offset_above_the_end_begins_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 2, 10, size=10)
    log.close()
    log = open_log(tmp_path / "log", log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert append(log, batch_of(1)).base_offset == 100


def test_the_start_offset_is_kept_and_never_below_the_first_segment(tmp_path: Path) -> None:
    crash(three_segments(tmp_path / "log"))
    for given, expected in ((None, 0), (7, 7), (33, 33)):
        assert open_log(tmp_path / "log", clean=False, log_start_offset=given).log_start_offset == expected
    (tmp_path / "log" / LOG).unlink()
    assert open_log(tmp_path / "log", clean=False, log_start_offset=7).log_start_offset == 20


def test_a_new_log_may_begin_anywhere(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", log_start_offset=1234)
    assert (log.log_start_offset, log.log_end_offset) == (1234, 1234)
    assert f"{1234:020d}.log" in names_in(tmp_path / "log")


def test_leftovers_go(tmp_path: Path) -> None:
    crash(three_segments(tmp_path / "log"))
    before = names_in(tmp_path / "log")
    for name in (
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.deleted",
        f"{20:020d}.log.cleaned",
        f"{20:020d}.timeindex.cleaned",
        f"{90:020d}.index",
        f"{40:020d}.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    ):
        (tmp_path / "log" / name).write_bytes(b"leftover")
    (tmp_path / "log" / "notes.txt").write_text("not ours")
    log = open_log(tmp_path / "log", clean=False, segment_bytes=2 * BATCH)
    log.close()
    assert names_in(tmp_path / "log") - before - {"notes.txt"} <= {
        f"{offset:020d}.{kind}" for offset in (0, 20, 40, 50) for kind in ("index", "timeindex", "snapshot")
    }
    assert (tmp_path / "log" / "notes.txt").exists()
    assert offsets_of(log) == extents(5)


def test_a_clean_reopen_continues_every_file(tmp_path: Path) -> None:
    """Stopping and starting leaves the bytes that a log without stops would have."""
    settings = {"segment_bytes": 40 * BATCH, "index_interval_bytes": 3 * BATCH}
    steady = open_log(tmp_path / "steady", **settings)
    for number in range(100):
        append(steady, batch_of(10, timestamp=number))
    steady.close()
    stopping = open_log(tmp_path / "stopping", **settings)
    for number in range(100):
        append(stopping, batch_of(10, timestamp=number))
        if number % 37 == 36:
            stopping.close()
            stopping = open_log(tmp_path / "stopping", **settings)
    stopping.close()
    for path in (tmp_path / "steady").iterdir():
        # Each stop adds an entry for the largest timestamp so far to the time index.
        if not path.name.endswith(".timeindex"):
            assert path.read_bytes() == (tmp_path / "stopping" / path.name).read_bytes(), path.name


def test_segments_written_by_others_are_taken(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    batch = batch_of(3)
    (tmp_path / "log" / LOG).write_bytes(batch + batch_of(3, base_offset=3))
    log = open_log(tmp_path / "log", clean=False)
    assert log.log_end_offset == 6
    assert decode_header(log.reader.read(3, 1, upper_offset=6, min_one_batch=True).load()).base_offset == 3

"""A disk that refuses: appends fail with a retriable error, what was there stays, and it goes on when it can.

The full disk is a small tmpfs where mounting is allowed; a file size limit shows the same everywhere.
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.storage.faulty_disk import FaultyDisk
from tests.unit.storage.log_building import append, append_many, batch_of, crash, data, names_in, offsets_of, open_log

from tidelog.model.errors import ErrorCode
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log import Log

MEBIBYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small tmpfs is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def append_until_refused(log: Log) -> int:
    """How many batches went in."""
    count = 0
    while True:
        size, end = log.size_bytes, log.log_end_offset
        try:
            append(log, batch_of(10, size=1000))
        except StorageFailure as error:
            failure = error
            break
        count += 1
    assert failure.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert failure.code.is_retriable
    assert (log.size_bytes, log.log_end_offset) == (size, end)
    return count


def test_a_full_disk_refuses_appends_and_serves_reads(small_disk: Path) -> None:
    log = open_log(small_disk / "log")
    count = append_until_refused(log)
    assert count > 50
    assert (small_disk / "log" / f"{0:020d}.log").stat().st_size == log.size_bytes
    expected = [(number * 10, number * 10 + 9) for number in range(count)]
    assert offsets_of(log) == expected
    for _ in range(3):
        with pytest.raises(StorageFailure):
            append_many(log, 1, 100, size=1000)
    assert offsets_of(log) == expected


def test_appends_go_on_when_there_is_space_again(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(MEBIBYTE // 2))
    log = open_log(small_disk / "log")
    count = append_until_refused(log)
    (small_disk / "ballast").unlink()
    assert append(log, batch_of(10)).base_offset == count * 10
    assert append_until_refused(log) > 10
    crash(log)
    assert open_log(small_disk / "log", clean=False).log_end_offset == log.log_end_offset


def append_in_sequence(log: Log, producer_id: int, sequence: int) -> None:
    for number in range(1000):
        append(log, data(producer_id, 0, sequence + 100 * number, count=100))


def test_idempotence_survives_a_full_disk(small_disk: Path) -> None:
    log = open_log(small_disk / "log")
    (small_disk / "ballast").write_bytes(bytes(MEBIBYTE - 8 * 4096))
    append(log, data(7, 0, 0, count=5))
    with pytest.raises(StorageFailure):
        append_many(log, 100, 10, size=1000)
    with pytest.raises(StorageFailure):
        append_in_sequence(log, 7, 5)
    state = log.producer_state.get(7)
    assert state is not None
    following = state.last_sequence + 1
    (small_disk / "ballast").unlink()
    assert not append(log, data(7, 0, following, count=100)).duplicate
    assert append(log, data(7, 0, following, count=100)).duplicate


def test_a_roll_on_a_full_disk_fails_and_succeeds_later(small_disk: Path) -> None:
    batch = batch_of(10, size=1000)
    log = open_log(small_disk / "log", segment_bytes=len(batch))
    append(log, batch)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(2 * MEBIBYTE))
    with pytest.raises(StorageFailure):
        append(log, batch)
    assert log.log_end_offset == 10
    ballast.unlink()
    assert append(log, batch).base_offset == 10
    log.close()
    log = open_log(small_disk / "log", segment_bytes=len(batch))
    assert offsets_of(log) == [(0, 9), (10, 19)]


def test_closing_on_a_full_disk_loses_nothing(small_disk: Path) -> None:
    log = open_log(small_disk / "log")
    count = append_until_refused(log)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(2 * MEBIBYTE))
    log.close()
    ballast.unlink()
    log = open_log(small_disk / "log")
    assert log.log_end_offset == count * 10
    assert len(offsets_of(log)) == count


def test_a_file_that_may_not_grow(tmp_path: Path, file_size_limit: int) -> None:
    log = open_log(tmp_path / "log")
    count = append_until_refused(log)
    assert (count + 1) * len(batch_of(10, size=1000)) > file_size_limit
    assert (tmp_path / "log" / f"{0:020d}.log").stat().st_size == log.size_bytes
    assert len(offsets_of(log)) == count


@pytest.mark.parametrize("taken", [0, 1, 15, 16, 100])
def test_a_write_that_is_taken_in_parts_is_finished(tmp_path: Path, taken: int) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "log", disk=disk.disk)

    def write_a_part(fd: int, parts: tuple[bytes, ...], position: int) -> int:
        return os.pwrite(fd, b"".join(parts)[:taken], position)

    disk.pwritev = write_a_part
    append(log, batch_of(10))
    append(log, batch_of(10))
    disk.pwritev = os.pwritev
    append(log, batch_of(10))
    assert offsets_of(log) == [(0, 9), (10, 19), (20, 29)]
    crash(log)
    assert open_log(tmp_path / "log", clean=False).log_end_offset == 30


def test_a_failed_write_that_cannot_be_undone_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "log", disk=disk.disk)
    append(log, batch_of(10))

    def fail_after_a_part(fd: int, parts: tuple[bytes, ...], position: int) -> int:
        os.pwrite(fd, b"".join(parts)[:50], position)
        raise OSError(errno.EIO, "broken")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwritev", fail_after_a_part)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(StorageFailure):
            append(log, batch_of(10))
    path = tmp_path / "log" / f"{0:020d}.log"
    assert path.stat().st_size == log.size_bytes + 50
    log.close()
    assert path.stat().st_size == log.size_bytes, "a clean close leaves a clean file"
    log = open_log(tmp_path / "log")
    append(log, batch_of(10))
    assert offsets_of(log) == [(0, 9), (10, 19)]


@pytest.mark.plain
def test_a_failed_roll_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(10)
    log = open_log(tmp_path / "log", segment_bytes=2 * len(batch))
    append(log, batch)
    append(log, batch)
    before = names_in(tmp_path / "log")

    def refuse(self: object) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr("tidelog.storage.segment.Segment.become_closed", refuse)
        with pytest.raises(StorageFailure):
            append(log, batch)
    assert {name for name in names_in(tmp_path / "log") - before if not name.endswith(".snapshot")} == set()
    append(log, batch)
    log.close()
    assert offsets_of(open_log(tmp_path / "log")) == [(0, 9), (10, 19), (20, 29)]


def test_a_failed_sync_does_not_move_the_recovery_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "log", disk=disk.disk)
    append(log, batch_of(10))

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "fdatasync", refuse)
        with pytest.raises(StorageFailure):
            log.flusher.flush()
    assert log.recovery_point == 0
    log.flusher.flush()
    assert log.recovery_point == 10

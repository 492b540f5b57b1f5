"""What the machine that the tests run on answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tidelog.runtime.disk import DISK, Disk, Folder
from tidelog.runtime.system import SYSTEM


def test_clocks_agree_with_the_machine() -> None:
    assert abs(SYSTEM.wall_clock_ms() - time.time() * 1000) < 60_000
    assert abs(SYSTEM.monotonic_s() - time.monotonic()) < 60
    assert abs(SYSTEM.monotonic_ms() - time.monotonic() * 1000) < 60_000


def test_usage_is_of_this_process() -> None:
    usage = SYSTEM.measure_usage()
    assert usage.cpu_s > 0
    assert usage.resident_bytes > 1 << 20
    assert usage.load_average >= 0


def test_random_bytes_differ() -> None:
    assert len(SYSTEM.random_bytes(16)) == 16
    assert SYSTEM.random_bytes(16) != SYSTEM.random_bytes(16)


def test_room_is_asked_of_a_path(tmp_path: Path) -> None:
    room = DISK.room_at(tmp_path)
    assert 0 < room.free_bytes <= room.size_bytes
    with pytest.raises(FileNotFoundError):
        DISK.room_at(tmp_path / "missing")


@pytest.mark.parametrize("start", [SYSTEM.start_threads, DISK.start_sync_threads])
def test_threads_work(start: object) -> None:
    with start(2) as threads:  # type: ignore[operator]
        assert threads.submit(lambda: 7).result(30) == 7


def test_a_folder_is_on_the_disks_of_this_machine_unless_it_says_more() -> None:
    other = Disk(fsync=lambda fd: None)
    assert Folder("a").disk is DISK
    assert Folder("a", other).disk is other

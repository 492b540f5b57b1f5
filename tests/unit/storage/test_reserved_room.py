"""Room that is kept for what frees space."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.faulty_disk import FaultyDisk

from tidelog.model.limits import DISK_ROOM_BYTES_ENOUGH, DISK_ROOM_BYTES_MIN, RESERVED_ROOM_BYTES
from tidelog.runtime.disk import Folder
from tidelog.storage.reserved_room import RESERVE_FILE, ReservedRoom


@pytest.mark.parametrize(
    ("free_bytes", "is_there_before", "is_there_after"),
    [
        (DISK_ROOM_BYTES_ENOUGH, False, True),
        (DISK_ROOM_BYTES_ENOUGH - 1, False, False),
        (DISK_ROOM_BYTES_MIN, True, True),
        (DISK_ROOM_BYTES_MIN - 1, True, False),
        (0, False, False),
    ],
)
def test_it_is_taken_where_there_is_room_and_given_up_where_a_start_needs_it(
    tmp_path: Path,
    free_bytes: int,
    is_there_before: bool,
    is_there_after: bool,
) -> None:
    disk = FaultyDisk()
    room = ReservedRoom(Folder(str(tmp_path), disk.disk))
    if is_there_before:
        room.take()
        assert (tmp_path / RESERVE_FILE).stat().st_blocks * 512 >= RESERVED_ROOM_BYTES
    disk.free_bytes = free_bytes
    room.settle()
    assert (tmp_path / RESERVE_FILE).exists() == is_there_after


def test_a_file_system_that_cannot_reserve_is_left_alone(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    disk = FaultyDisk()
    disk.posix_fallocate = refuse
    ReservedRoom(Folder(str(tmp_path), disk.disk)).take()
    assert list(tmp_path.iterdir()) == []

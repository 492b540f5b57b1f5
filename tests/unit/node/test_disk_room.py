"""A disk that runs full and gets room again, as its own calls tell."""

from __future__ import annotations

from pathlib import Path

from tests.unit.storage.faulty_disk import FaultyDisk

from tidelog.model.limits import DISK_ROOM_BYTES_ENOUGH, DISK_ROOM_BYTES_MIN
from tidelog.node.disk_room import DiskRoom


def test_room_is_short_below_the_limit_and_until_there_is_clearly_more(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.free_bytes = DISK_ROOM_BYTES_MIN
    room = DiskRoom(tmp_path, disk.disk)
    assert not room.is_short()
    disk.free_bytes = DISK_ROOM_BYTES_MIN - 1
    assert room.is_short()
    disk.free_bytes = DISK_ROOM_BYTES_ENOUGH - 1
    assert room.is_short()
    disk.free_bytes = DISK_ROOM_BYTES_ENOUGH
    assert not room.is_short()


def test_a_real_disk_has_room(tmp_path: Path) -> None:
    assert not DiskRoom(tmp_path).is_short()

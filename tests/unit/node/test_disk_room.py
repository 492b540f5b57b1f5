"""A disk that runs full and gets room again, as statvfs would tell."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidelog.model.limits import DISK_ROOM_BYTES_ENOUGH, DISK_ROOM_BYTES_MIN
from tidelog.node.disk_room import DiskRoom


def test_room_is_short_below_the_limit_and_until_there_is_clearly_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = {"bytes": DISK_ROOM_BYTES_MIN}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free["bytes"], f_frsize=1))
    room = DiskRoom(tmp_path)
    assert not room.is_short()
    free["bytes"] = DISK_ROOM_BYTES_MIN - 1
    assert room.is_short()
    free["bytes"] = DISK_ROOM_BYTES_ENOUGH - 1
    assert room.is_short()
    free["bytes"] = DISK_ROOM_BYTES_ENOUGH
    assert not room.is_short()


def test_a_real_disk_has_room(tmp_path: Path) -> None:
    assert not DiskRoom(tmp_path).is_short()

"""The only owner of descriptors: whole reads and writes, mapping, sending, closing."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
from tests.unit.storage.faulty_disk import FaultyDisk

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.segment_file import READ, READ_WRITE_NEW, WRITE_NEW, WRITE_OR_CREATE, SegmentFile

CONTENT = bytes(range(256)) * 16


def new_file(path: Path, content: bytes = CONTENT, disk: Disk = DISK) -> SegmentFile:
    file = SegmentFile(str(path), READ_WRITE_NEW, disk)
    file.write(content, 0)
    return file


def test_reads_name_their_place_and_end_with_the_file(tmp_path: Path) -> None:
    file = new_file(tmp_path / "file")
    assert file.read(10, 250) == CONTENT[250:260]
    assert file.read(100, len(CONTENT) - 10) == CONTENT[-10:]
    assert file.read(1, len(CONTENT)) == b""
    assert file.size_bytes() == len(CONTENT)


def test_reads_and_writes_in_parts_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, 100), position))
    disk = FaultyDisk()
    disk.pwrite = lambda fd, view, position: os.pwrite(fd, view[:7], position)
    disk.pwritev = lambda fd, parts, position: os.pwrite(fd, b"".join(parts)[:150], position)
    file = new_file(tmp_path / "file", disk=disk.disk)
    assert file.read(len(CONTENT) + 1, 0) == CONTENT
    file.write_parts((CONTENT[:100], memoryview(CONTENT)[100:1000]), 1000, 50)
    assert (tmp_path / "file").read_bytes() == CONTENT[:50] + CONTENT[:1000] + CONTENT[1050:]


def test_a_disk_that_takes_only_a_part_refuses_the_rest(tmp_path: Path) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    disk = FaultyDisk()
    file = new_file(tmp_path / "file", b"", disk.disk)
    disk.pwritev = lambda fd, parts, position: os.pwrite(fd, parts[0], position)
    disk.pwrite = refuse
    with pytest.raises(OSError, match="full"):
        file.write_parts((b"one", b"two"), 6, 0)
    assert file.size_bytes() == 3


def test_a_mapping_outlives_the_file_and_may_be_empty(tmp_path: Path) -> None:
    with new_file(tmp_path / "file") as file:
        view = file.map()
    os.unlink(tmp_path / "file")
    assert view == CONTENT
    assert len(new_file(tmp_path / "empty", b"").map()) == 0


def test_bytes_go_to_a_socket(tmp_path: Path) -> None:
    file = new_file(tmp_path / "file")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert file.send_to(ours.fileno(), 10, 20) == 20
        assert theirs.recv(100) == CONTENT[10:30]
        assert file.send_to(ours.fileno(), len(CONTENT), 20) == 0, "the file ends there"


def test_what_is_opened_how(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        SegmentFile(path)
    with SegmentFile(path, WRITE_OR_CREATE) as file:
        file.write(b"kept", 0)
        file.sync()
    with SegmentFile(path, WRITE_OR_CREATE) as file:
        file.write(b"L", 4)
        file.sync_data()
    with SegmentFile(path, READ) as file:
        assert file.read(10, 0) == b"keptL"
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.write(b"x", 0)
    with SegmentFile(path) as file:
        file.truncate(2)
    assert Path(path).read_bytes() == b"ke"
    with SegmentFile(path, WRITE_NEW):
        assert Path(path).read_bytes() == b""


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    file = new_file(tmp_path / "file")
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(1, 0)

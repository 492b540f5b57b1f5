"""Flushing: what is synced, when the recovery point moves, and file descriptors that stay few."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.storage.faulty_disk import FaultyDisk
from tests.unit.storage.log_building import append_many, batch_of, offsets_of, open_log

from tidelog.storage import files, segment_file
from tidelog.storage.files import Residency
from tidelog.storage.log import Log


class RecordingDisk(FaultyDisk):
    def __init__(self) -> None:
        super().__init__()
        self.fdatasync = self.fsync = self._record
        self.synced: list[str] = []
        """Names of files and directories in the order they were synced."""

    def _record(self, fd: int) -> None:
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))


def log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_flush_syncs_what_is_not_yet_safe(tmp_path: Path) -> None:
    disk = RecordingDisk()
    synced = disk.synced
    log = open_log(tmp_path / "log", disk=disk.disk, segment_bytes=2 * len(batch_of(10, size=100)))
    log.flusher.flush()
    assert synced == []
    append_many(log, 1)
    log.flusher.flush()
    assert synced == [log_name(0), "log", tmp_path.name], "the first flush makes the new names safe too"
    assert log.recovery_point == 10
    synced.clear()
    log.flusher.flush()
    assert synced == []
    append_many(log, 1)
    log.flusher.flush()
    assert synced == [log_name(0)]
    synced.clear()
    append_many(log, 5)
    log.flusher.flush()
    assert synced == [log_name(20), log_name(40), log_name(60), "log"]
    assert log.recovery_point == log.log_end_offset == 70


def test_a_closed_segment_asks_for_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 1)
    assert not log.flusher.has_unflushed_closed_segment
    log.writer.roll()
    assert log.flusher.has_unflushed_closed_segment
    log.flusher.flush()
    append_many(log, 1)
    assert not log.flusher.has_unflushed_closed_segment


def test_appends_during_a_flush_are_not_counted_as_safe(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 1)
    flush = log.flusher.begin_flush()
    append_many(log, 1)
    flush.sync()
    log.flusher.finish_flush(flush)
    assert log.recovery_point == 10


def test_truncation_during_a_flush_keeps_the_recovery_point_inside_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 3)
    flush = log.flusher.begin_flush()
    log.rearranger.truncate_to(10)
    flush.sync()
    log.flusher.finish_flush(flush)
    assert log.recovery_point == 10


@pytest.mark.parametrize("cut_at", [10, 0])
def test_what_took_the_place_of_flushed_records_is_not_counted_as_safe(tmp_path: Path, cut_at: int) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 3)
    flush = log.flusher.begin_flush()
    flush.sync()
    log.rearranger.truncate_to(cut_at)
    append_many(log, 4)
    log.flusher.finish_flush(flush)
    assert log.recovery_point == cut_at
    log.flusher.flush()
    assert log.recovery_point == log.log_end_offset == cut_at + 40


def test_a_log_that_began_again_can_be_flushed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 3)
    flush = log.flusher.begin_flush()
    log.rearranger.truncate_fully_and_start_at(100)
    flush.sync()
    log.flusher.finish_flush(flush)
    assert log.recovery_point < 100
    log.flusher.flush()
    assert log.recovery_point == 100


def test_a_clean_close_flushes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 3)
    log.close()
    assert log.recovery_point == 30
    assert open_log(tmp_path / "log").recovery_point == 30


def open_descriptors(directory: Path) -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(str(directory))
        except FileNotFoundError:
            continue
    return count


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_open_files_are_bounded_over_all_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Residency(8)
    monkeypatch.setattr("tidelog.storage.segment.RESIDENT_FILES", limit)
    logs: list[Log] = []
    for number in range(20):
        log = open_log(tmp_path / str(number), segment_bytes=2 * len(batch_of(10, size=100)))
        append_many(log, 5)
        logs.append(log)
        assert open_descriptors(tmp_path) <= 8
    for log in logs:
        assert len(offsets_of(log)) == 5
        assert open_descriptors(tmp_path) <= 8
    for log in logs:
        append_many(log, 1)
        assert offsets_of(log)[-1] == (50, 59)
    for log in logs:
        log.close()
    assert open_descriptors(tmp_path) == 0
    assert limit.held == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_region_keeps_its_file_open_and_no_longer(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 1)
    region = log.reader.read(0, 1 << 20, upper_offset=10, min_one_batch=True)
    log.close()
    assert open_descriptors(tmp_path) == 1
    assert len(region.load()) == region.size
    del region
    assert open_descriptors(tmp_path) == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_file_is_closed_even_after_the_module_lost_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process ends: Python empties modules before it lets go of the last objects."""
    (tmp_path / "file").touch()
    file = segment_file.SegmentFile(str(tmp_path / "file"))
    assert open_descriptors(tmp_path) == 1
    with monkeypatch.context() as patch:
        patch.setattr(segment_file, "os", None)
        del file
    assert open_descriptors(tmp_path) == 0


def test_indexes_of_closed_segments_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Residency(100)
    for module in ("segment", "offset_index", "time_index"):
        monkeypatch.setattr(f"tidelog.storage.{module}.RESIDENT_INDEXES", limit)
    log = open_log(tmp_path / "log", segment_bytes=6 * len(batch_of(10, size=100)), index_interval_bytes=1)
    append_many(log, 60)
    assert len(log.segments) == 10
    for _ in range(2):
        assert len(offsets_of(log)) == 60
        assert limit.held <= 100
    log.close()
    assert limit.held == 0


def test_the_limit_leaves_room_for_sockets() -> None:
    assert 16 <= files.RESIDENT_FILES.limit <= 4096

"""Files of what was dropped: out of the way at once, removed when it is time or the disk needs the room."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import START_MS, Clock, append, batch_of, names_in, open_log

from tidelog.model.ids import TopicPartition
from tidelog.runtime.system import System
from tidelog.storage.leftovers import Leftovers, remove_all
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory

PLENTY = 1 << 60


def log_of_four(path: Path, clock: Clock, leftovers: Leftovers | None, **options: object) -> Log:
    log = open_log(path, clock, segment_bytes=1000, leftovers=leftovers, **options)
    for _ in range(4):
        append(log, batch_of(5, size=100))
    assert len(log.segments) == 4
    return log


def deleted(path: Path) -> set[str]:
    return {name for name in names_in(path) if name.endswith(".deleted")}


def test_a_dropped_segment_waits_for_its_time(tmp_path: Path) -> None:
    clock, leftovers = Clock(), Leftovers()
    log = log_of_four(tmp_path, clock, leftovers, file_delete_delay_ms=500)
    region = log.reader.read(0, 400, upper_offset=5, min_one_batch=True)
    log.rearranger.delete_oldest(2)
    assert deleted(tmp_path) >= {f"{0:020d}.log.deleted", f"{5:020d}.log.deleted"}
    assert f"{0:020d}.log" not in names_in(tmp_path)
    assert leftovers.take_due(clock() + 499, PLENTY) == []
    due = leftovers.take_due(clock() + 500, PLENTY)
    assert remove_all(due) == len(due)
    assert deleted(tmp_path) == set()
    assert len(region.load()) == region.size, "a reader needs no wait"
    assert not leftovers


def test_a_disk_that_needs_the_room_does_not_wait(tmp_path: Path) -> None:
    clock, leftovers = Clock(), Leftovers()
    log = log_of_four(tmp_path, clock, leftovers)
    size = log.rearranger.delete_oldest(2)
    assert leftovers.take_due(clock(), size) == []
    remove_all(leftovers.take_due(clock(), size - 1))
    assert deleted(tmp_path) == set()
    assert not leftovers


def test_without_leftovers_files_go_at_once(tmp_path: Path) -> None:
    log = log_of_four(tmp_path, Clock(), None)
    log.rearranger.delete_oldest(2)
    assert deleted(tmp_path) == set()
    assert not (tmp_path / f"{0:020d}.log").exists()


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_removes_what_still_waits(tmp_path: Path, clean: bool) -> None:
    log = log_of_four(tmp_path, Clock(), Leftovers())
    log.rearranger.truncate_to(12)
    log.rearranger.delete_oldest(1)
    assert deleted(tmp_path)
    log.close(clean=clean)
    again = open_log(tmp_path, clean=clean)
    assert (again.log_start_offset, again.log_end_offset) == (5, 10), "the batch that reached over 12 went as a whole"
    assert deleted(tmp_path) == set()


def test_a_truncated_offset_is_written_again_while_its_old_file_waits(tmp_path: Path) -> None:
    clock, leftovers = Clock(), Leftovers()
    log = log_of_four(tmp_path, clock, leftovers)
    for _ in range(2):
        log.rearranger.truncate_fully_and_start_at(5)
        append(log, batch_of(5, size=10))
    remove_all(leftovers.take_due(START_MS + 10**9, PLENTY))
    log.close()
    again = open_log(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (5, 10)


def test_a_deleted_log_takes_its_leftovers_along(tmp_path: Path) -> None:
    clock = Clock()
    directory = LogDirectory.open(tmp_path, node_id=1, cluster_id=None, system=System(clock))
    partition = TopicPartition("a", 0)
    config = open_log(tmp_path / "other", segment_bytes=1000, file_delete_delay_ms=700).config
    log = directory.open_log(partition, config, topic_id=None)
    for _ in range(3):
        append(log, batch_of(5, size=100))
    log.rearranger.delete_oldest(1)
    directory.delete_log(partition)
    clock.now += 699
    assert directory.take_leftovers() == []
    clock.now += 1
    assert remove_all(directory.take_leftovers()) == 1
    assert list(tmp_path.glob("a-0*")) == []
    directory.close()

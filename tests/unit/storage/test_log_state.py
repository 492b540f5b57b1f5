"""What the state of a log promises holds after every operation, also after one that the disk stopped halfway."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.unit.storage.log_building import append_many, batch_of, offsets_of, open_log

from tidelog.storage.errors import StorageFailure
from tidelog.storage.log import Log

BATCH = len(batch_of(10, size=100))


def log_of_segments(directory: Path) -> Log:
    """Seven batches of ten records, two to a segment: segments at 0, 20, 40 and 60."""
    log = open_log(directory, segment_bytes=2 * BATCH)
    append_many(log, 7)
    log.flusher.flush()
    return log


def check_promises(log: Log) -> None:
    bases = [segment.base_offset for segment in log.segments]
    assert bases
    assert bases == sorted(set(bases))
    assert log.active_segment is log.segments[-1]
    assert log.log_start_offset <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    assert bases[-1] <= log.log_end_offset


def refuse_after(monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    """The disk does so many more of these calls."""
    call = getattr(os, name)
    left = [calls]

    def limited(*args: object, **options: object) -> object:
        if left[0] == 0:
            raise OSError(errno.EIO, "broken")
        left[0] -= 1
        return call(*args, **options)

    monkeypatch.setattr(os, name, limited)


@pytest.mark.parametrize("calls", range(7))
@pytest.mark.parametrize("target", [0, 15, 30])
def test_a_truncation_that_failed_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, target: int
) -> None:
    log = log_of_segments(tmp_path / "log")
    with monkeypatch.context() as patch:
        refuse_after(patch, "replace", calls)
        try:
            log.rearranger.truncate_to(target)
        except StorageFailure:
            check_promises(log)
    log.rearranger.truncate_to(target)
    check_promises(log)
    assert log.log_end_offset == target - target % 10
    assert log.recovery_point <= log.log_end_offset
    append_many(log, 1)
    log.close()
    again = open_log(tmp_path / "log", clean=False)
    assert [first for first, _ in offsets_of(again)] == [*range(0, target - 9, 10), target - target % 10]


def test_a_restart_elsewhere_that_failed_leaves_a_log_with_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of_segments(tmp_path / "log")
    with monkeypatch.context() as patch:
        refuse_after(patch, "open", 0)
        with pytest.raises(StorageFailure):
            log.rearranger.truncate_fully_and_start_at(500)
    check_promises(log)
    log.rearranger.truncate_fully_and_start_at(500)
    check_promises(log)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    append_many(log, 1)
    assert offsets_of(log) == [(500, 509)]


def test_the_remembered_position_is_forgotten_with_every_rearrangement(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    for change in (
        lambda: log.rearranger.truncate_to(65),
        lambda: log.rearranger.delete_oldest(1),
        lambda: log.rearranger.truncate_fully_and_start_at(90),
    ):
        start = log.log_start_offset
        log.reader.read(start, 1 << 20, upper_offset=log.log_end_offset - 1, min_one_batch=True)
        change()
        check_promises(log)
        append_many(log, 3, 7)
        upper = log.log_end_offset - 7
        region = log.reader.read(log.log_end_offset - 14, 1 << 20, upper_offset=upper, min_one_batch=True)
        assert region.size == len(batch_of(7, size=100))

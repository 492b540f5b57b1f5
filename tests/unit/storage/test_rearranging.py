"""Truncating, deleting and replacing segments, and a crash between any two steps of a replacement."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.storage.log_building import (
    START_MS,
    append,
    append_many,
    batch_of,
    crash,
    data,
    headers_in,
    names_in,
    offsets_of,
    open_log,
)

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.batch import iterate_headers
from tidelog.storage.files import CLEANED_SUFFIX
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment

BATCH = len(batch_of(10))
SETTINGS = {"segment_bytes": 2 * BATCH, "index_interval_bytes": 1}


def extents(stop: int, start: int = 0) -> list[tuple[int, int]]:
    return [(offset, offset + 9) for offset in range(start, stop, 10)]


def log_of_segments(directory: Path, batches: int = 7) -> Log:
    """Segments [0, 20), [20, 40), [40, 60), [60, 70)."""
    log = open_log(directory, **SETTINGS)
    append_many(log, batches, 10, size=10)
    return log


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(
    ("target", "end"),
    [
        pytest.param(80, 70, id="above the end"),
        pytest.param(70, 70, id="at the end"),
        pytest.param(69, 60, id="inside the last batch"),
        pytest.param(60, 60, id="base of the active segment"),
        pytest.param(50, 50, id="inside a closed segment"),
        pytest.param(45, 40, id="inside the first batch of a segment"),
        pytest.param(40, 40, id="base of a closed segment"),
        pytest.param(10, 10, id="inside the first segment"),
        pytest.param(3, 0, id="inside the first batch"),
        pytest.param(0, 0, id="everything"),
    ],
)
def test_truncating(tmp_path: Path, target: int, end: int, reopened: bool) -> None:
    log = log_of_segments(tmp_path / "log")
    if reopened:
        log.close()
        log = open_log(tmp_path / "log", **SETTINGS)
    log.rearranger.truncate_to(target)
    assert log.log_end_offset == end
    assert offsets_of(log) == extents(end)
    assert log.recovery_point <= end
    crash(log)
    log = open_log(tmp_path / "log", clean=False, **SETTINGS)
    assert log.log_end_offset == end
    append_many(log, 3, 10, size=10)
    assert offsets_of(log) == extents(end + 30)


def test_truncating_below_the_first_segment_begins_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", log_start_offset=100, **SETTINGS)
    append_many(log, 3, 10, size=10)
    log.rearranger.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (50, 50, 1)


@pytest.mark.parametrize("ending", ["closed", "crashed", "crashed with a torn batch"])
@pytest.mark.parametrize(("target", "left"), [(30, [(0, 9)]), (25, [(0, 9)]), (10, [(0, 9)]), (5, []), (0, [])])
def test_truncating_into_a_gap_gives_out_no_offset_twice(
    tmp_path: Path, target: int, left: list[tuple[int, int]], ending: str
) -> None:
    """Only [0, 10) and [30, 40) are left of what was written: no batch ends at 25 or 30."""
    log = open_log(tmp_path / "log")
    for offset in (0, 30):
        log.writer.append_as_follower(batch_of(10, base_offset=offset))
    log.rearranger.truncate_to(target)
    end = log.log_end_offset
    assert end == (0 if target == 5 else target)
    assert offsets_of(log) == left
    if ending == "crashed with a torn batch":
        append(log, batch_of(10))
        crash(log)
        os.truncate(log.active_segment.path, log.active_segment.size - 1)
    else:
        log.close(clean=ending == "closed")
    log = open_log(tmp_path / "log", clean=ending == "closed")
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert append(log, batch_of(10)).base_offset == end
    assert offsets_of(log) == [*left, (end, end + 9)]


def test_truncating_in_a_gap_twice(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for offset in (0, 30):
        log.writer.append_as_follower(batch_of(10, base_offset=offset))
    for target in (28, 20, 12):
        log.rearranger.truncate_to(target)
        assert log.log_end_offset == target
        crash(log)
        log = open_log(tmp_path / "log", clean=False)
        assert log.log_end_offset == target
    assert [segment.base_offset for segment in log.segments] == [0, 12]


def test_truncating_takes_back_epochs_and_producers(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=2 * len(data(7, 0, 0)))
    for number in range(6):
        append(log, data(7, 0, number), leader_epoch=number // 2)
    log.rearranger.truncate_to(3)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 2)]
    assert append(log, data(7, 0, 2), leader_epoch=9).duplicate
    assert not append(log, data(7, 0, 3), leader_epoch=9).duplicate
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 2), (9, 3)]
    assert all(int(name[:20]) <= 4 for name in names_in(tmp_path / "log") if name.endswith(".snapshot"))


def test_starting_again_elsewhere(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    append(log, data(7, 0, 0), leader_epoch=3)
    log.rearranger.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert len(log.producer_state) == 0
    assert log.leader_epochs.entries == ()
    append_many(log, 1, 10, size=10, leader_epoch=4)
    assert offsets_of(log) == [(500, 509)]
    log.close()
    log = open_log(tmp_path / "log", **SETTINGS)
    assert (log.log_start_offset, log.log_end_offset) == (500, 510)
    assert {int(name[:20]) for name in names_in(tmp_path / "log") if name[0] == "0"} == {500, 510}


def test_deleting_records_moves_the_start(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    assert log.rearranger.delete_records_before(25) == 25
    assert log.rearranger.delete_records_before(5) == 25, "never back"
    assert len(log.segments) == 4
    assert headers_in(log.reader.read(25, 1, upper_offset=70, min_one_batch=True))[0].base_offset == 20
    assert log.rearranger.delete_old_segments(lambda segment: segment.base_offset + 20 <= 25, 70) == 1
    assert log.log_start_offset == 25
    for offset in (-1, 71):
        with pytest.raises(BrokerError) as refused:
            log.rearranger.delete_records_before(offset)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.rearranger.delete_records_before(70) == 70
    assert offsets_of(log) == []


def test_deleting_segments_from_the_oldest(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    assert log.rearranger.delete_oldest(2) == 4 * BATCH
    assert (log.log_start_offset, log.log_end_offset) == (40, 70)
    assert offsets_of(log) == extents(70, 40)
    assert log.leader_epochs.entries[0].start_offset == 40
    assert {int(name[:20]) for name in names_in(tmp_path / "log") if name[0] == "0"} == {40, 60}
    with pytest.raises(AssertionError):
        log.rearranger.delete_oldest(len(log.segments))


@pytest.mark.parametrize(("upper", "left"), [(70, 1), (59, 2), (40, 2), (39, 3), (0, 4)])
def test_old_segments_go_only_below_the_upper_offset(tmp_path: Path, upper: int, left: int) -> None:
    log = log_of_segments(tmp_path / "log")
    assert log.rearranger.delete_old_segments(lambda segment: True, upper) == 4 - left
    assert len(log.segments) == left


def cleaned_segment(log: Log, *sources: Segment) -> Segment:
    """What compaction could make of these: the second batch of each."""
    cleaned = Segment.create(log.active_segment.folder, sources[0].base_offset, START_MS, suffix=CLEANED_SUFFIX)
    cleaned.index_interval_bytes = 1
    for source in sources:
        content = Path(source.path).read_bytes()
        for position, header in list(iterate_headers(content))[1:]:
            cleaned.append(content[position : position + header.size_in_bytes], header)
    return cleaned


AFTER = [(10, 19), (30, 39), (40, 49), (50, 59), (60, 69)]


def test_replacing_segments(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    region = log.reader.read(20, 1 << 20, upper_offset=70, min_one_batch=True)
    content = region.load()
    old = log.segments[:2]
    log.rearranger.replace_segments([cleaned_segment(log, *old)], old)
    assert offsets_of(log) == AFTER
    assert region.load() == content, "readers of the old segment go on"
    assert [segment.base_offset for segment in log.segments] == [0, 40, 60]
    assert not [name for name in names_in(tmp_path / "log") if name.count(".") > 1]
    assert f"{20:020d}.snapshot" not in names_in(tmp_path / "log")
    log.close()
    log = open_log(tmp_path / "log", **SETTINGS)
    assert offsets_of(log) == AFTER
    assert log.segments[0].load_offset_index().entries() == [(39, BATCH)]


def test_only_closed_neighbours_can_be_replaced(tmp_path: Path) -> None:
    log = log_of_segments(tmp_path / "log")
    for old in ([log.segments[0], log.segments[2]], log.segments[2:]):
        with pytest.raises(AssertionError):
            log.rearranger.replace_segments([], old)


class Stop(Exception):
    """The process ends here."""


def test_a_crash_at_any_step_of_a_replacement_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the replacement at its first rename or removal, then at its second, and so on until it gets through."""
    outcomes = []
    for limit in range(60):
        directory = tmp_path / str(limit) / "log"
        log = log_of_segments(directory)
        old = log.segments[:2]
        new = [cleaned_segment(log, old[0]), cleaned_segment(log, old[1])]
        steps = iter(range(limit))

        def stopping(action: object, steps: object = steps) -> object:
            def call(*arguments: object) -> object:
                if next(steps, None) is None:  # type: ignore[call-overload]
                    raise Stop
                return action(*arguments)  # type: ignore[operator]

            return call

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stopping(os.replace))
            patch.setattr(os, "unlink", stopping(os.unlink))
            try:
                log.rearranger.replace_segments(new, old)
                finished = True
            except Stop:
                finished = False
        crash(log)
        again = tmp_path / str(limit) / "again"
        shutil.copytree(directory, again)
        for clean in (True, False):
            log = open_log(directory if clean else again, clean=clean, **SETTINGS)
            found = offsets_of(log)
            assert found in (extents(70), AFTER), limit
            assert not [name for name in names_in(Path(log.directory)) if name.count(".") > 1]
        outcomes.append(found == AFTER)
        if finished:
            break
    assert finished
    assert sorted(outcomes) == outcomes, "once the new ones are there, they stay"
    assert set(outcomes) == {True, False}

"""What retention drops, and what it must never drop."""

from pathlib import Path

import pytest
from tests.unit.storage.partition_log import COMPACT, NOW, append, config, open_log, visible

from tidelog.storage.errors import StorageFailure
from tidelog.storage.log import Log
from tidelog.storage.retention import RetentionResult, apply_retention

DAY = 86_400_000


def filled(directory: Path, segments: int = 4, **settings: object) -> Log:
    """One batch of two records per segment, each a day younger than the one before; the last is active and today's."""
    log = open_log(directory, **settings)
    for at in range(segments):
        if at:
            log.writer.roll()
        append(log, [(b"k", b"v" * 100)] * 2, timestamp=NOW - (segments - 1 - at) * DAY)
    return log


def offsets(log: Log) -> list[int]:
    return [record.offset for record in visible(log)]


def test_by_age(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=2 * DAY)
    # The oldest segment is three days old, the second exactly two: only older ones go.
    result = apply_retention(log, log.log_end_offset, NOW)
    assert result.segments == 1
    assert (log.log_start_offset, offsets(log)) == (2, [2, 3, 4, 5, 6, 7])
    assert apply_retention(log, log.log_end_offset, NOW + 1).segments == 1
    assert not (tmp_path / "topic-0" / "00000000000000000000.log").exists()
    assert not (tmp_path / "topic-0" / "00000000000000000002.index").exists()


def test_the_active_segment_goes_too_when_it_is_too_old(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=2 * DAY)
    assert apply_retention(log, log.log_end_offset, NOW + 10 * DAY).segments == 4
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (8, 8, 0)
    assert append(log, [(b"k", b"v")], timestamp=NOW + 10 * DAY).base_offset == 8
    assert apply_retention(log, 9, NOW + 10 * DAY) == RetentionResult(0, 0)


def test_what_can_go_goes_when_there_is_no_room_for_a_new_segment(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=2 * DAY)
    # A name that leads nowhere is as good as a disk without room for another file.
    following = tmp_path / "topic-0" / f"{8:020d}.log"
    following.symlink_to("nowhere/at-all")
    assert apply_retention(log, log.log_end_offset, NOW + 10 * DAY).segments == 3
    assert offsets(log) == [6, 7]
    following.symlink_to("nowhere/at-all")
    with pytest.raises(StorageFailure):
        apply_retention(log, log.log_end_offset, NOW + 10 * DAY)


def test_an_empty_log_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1)
    assert apply_retention(log, 0, NOW + 10 * DAY).segments == 0
    assert len(log.segments) == 1


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=0)
    assert apply_retention(log, 3, NOW + 10 * DAY).segments == 1
    assert apply_retention(log, 3, NOW + 10 * DAY).segments == 0
    assert offsets(log) == [2, 3, 4, 5, 6, 7]


def test_by_size(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment_size = log.segments[0].size
    log.update_config(config(retention_ms=-1, retention_bytes=2 * segment_size + 1))
    # Dropping one leaves three, which is more than allowed; dropping two would leave less than must be kept.
    assert apply_retention(log, log.log_end_offset, NOW) == RetentionResult(1, segment_size)
    log.update_config(config(retention_ms=-1, retention_bytes=2 * segment_size))
    assert apply_retention(log, log.log_end_offset, NOW).segments == 1
    assert offsets(log) == [4, 5, 6, 7]
    log.update_config(config(retention_ms=-1, retention_bytes=0))
    assert apply_retention(log, log.log_end_offset, NOW).segments == 2
    assert log.size_bytes == 0


@pytest.mark.parametrize(
    "settings", [{"retention_ms": -1}, {"cleanup_policy": COMPACT, "retention_ms": 1}, {"cleanup_policy": frozenset()}]
)
def test_what_is_not_deleted(tmp_path: Path, settings: dict[str, object]) -> None:
    log = filled(tmp_path, **settings)
    assert apply_retention(log, log.log_end_offset, NOW + 1000 * DAY).segments == 0


@pytest.mark.parametrize("settings", [{"retention_ms": -1}, {"cleanup_policy": COMPACT}])
def test_deleted_records_free_their_segments(tmp_path: Path, settings: dict[str, object]) -> None:
    log = filled(tmp_path, **settings)
    log.rearranger.delete_records_before(5)
    assert apply_retention(log, log.log_end_offset, NOW).segments == 2
    assert (log.log_start_offset, offsets(log)) == (5, [5, 6, 7])
    log.rearranger.delete_records_before(8)
    assert apply_retention(log, log.log_end_offset, NOW).segments == 1
    assert [segment.base_offset for segment in log.segments] == [6]


def test_without_timestamps_the_file_has_an_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=DAY)
    append(log, [(b"k", b"v")], timestamp=-1)
    log.writer.roll()
    written_ms = int((tmp_path / "topic-0" / "00000000000000000000.log").stat().st_mtime * 1000)
    assert apply_retention(log, 1, written_ms + DAY - 1).segments == 0
    assert apply_retention(log, 1, written_ms + DAY + 1).segments == 1


def test_whoever_reads_a_dropped_segment_reads_on(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=0)
    region = log.reader.read(0, 1 << 20, upper_offset=8, min_one_batch=True)
    apply_retention(log, 8, NOW + DAY)
    assert len(region.load()) == region.size > 0

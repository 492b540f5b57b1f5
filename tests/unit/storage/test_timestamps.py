"""Offsets by time: the exact record, in every codec, across segments and after reopening."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import START_MS, append, batch_of, crash, open_log

from tidelog.codec.compression import CompressionType
from tidelog.records.builder import NewRecord, build_batch
from tidelog.storage.log import Log


def at(log: Log, timestamp: int) -> tuple[int, int, int] | None:
    found = log.reader.offset_for_timestamp(timestamp)
    return None if found is None else tuple(found)


@pytest.mark.parametrize("compression", list(CompressionType))
def test_the_first_record_at_or_after_the_time(tmp_path: Path, compression: CompressionType) -> None:
    log = open_log(tmp_path / "log")
    for number in range(5):
        batch = build_batch(
            [NewRecord(None, b"v", 1000 * number + step * 10) for step in range(10)], compression=compression
        )
        append(log, batch, leader_epoch=number)
    assert at(log, 0) == (0, 0, 0)
    assert at(log, 1) == (10, 1, 0)
    assert at(log, 90) == (90, 9, 0)
    assert at(log, 91) == (1000, 10, 1)
    assert at(log, 3055) == (3060, 36, 3)
    assert at(log, 4090) == (4090, 49, 4)
    assert at(log, 4091) is None
    assert log.reader.max_timestamp_offset() == (4090, 49, 4)


@pytest.mark.parametrize("state", ["live", "reopened", "crashed", "no time index"])
def test_across_segments_and_out_of_order(tmp_path: Path, state: str) -> None:
    times = [50, 10, 80, 20, 90, 90, 30, 70, 120, 60, 110, 5]
    size = len(batch_of(1))
    settings = {"segment_bytes": 3 * size, "index_interval_bytes": 1}
    log = open_log(tmp_path / "log", **settings)
    for time in times:
        append(log, batch_of(1, timestamp=time))
    assert len(log.segments) == 4
    if state != "live":
        if state == "crashed":
            crash(log)
        else:
            log.close()
        if state == "no time index":
            for path in (tmp_path / "log").glob("*.timeindex"):
                path.unlink()
        log = open_log(tmp_path / "log", clean=state != "crashed", **settings)
    for asked in range(0, 130, 5):
        expected = next(((time, offset, 0) for offset, time in enumerate(times) if time >= asked), None)
        assert at(log, asked) == expected, asked
    assert log.reader.max_timestamp_offset() == (120, 8, 0)
    assert [segment.largest_timestamp() for segment in log.segments] == [80, 90, 120, 110]


def test_deleted_records_are_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, batch_of(10, timestamp=100))
    append(log, batch_of(10, timestamp=200))
    log.rearranger.delete_records_before(5)
    assert at(log, 0) == (105, 5, 0)
    log.rearranger.delete_records_before(15)
    assert at(log, 0) == (205, 15, 0)


def test_stamped_batches_have_one_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", message_timestamp_type="LogAppendTime")
    append(log, batch_of(5), now_ms=START_MS + 10)
    append(log, batch_of(5), now_ms=START_MS + 20)
    assert at(log, START_MS + 10) == (START_MS + 10, 0, 0)
    assert at(log, START_MS + 11) == (START_MS + 20, 5, 0)
    assert log.reader.max_timestamp_offset() == (START_MS + 20, 5, 0)


def test_records_without_a_time_are_never_found(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    assert at(log, 0) is None
    assert log.reader.max_timestamp_offset() is None
    append(log, build_batch([NewRecord(None, b"v", -1)] * 3))
    assert at(log, 0) is None
    assert log.reader.max_timestamp_offset() is None
    log.close()
    assert open_log(tmp_path / "log").reader.max_timestamp_offset() is None


def test_truncation_forgets_times(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", index_interval_bytes=1)
    for time in (10, 50, 30, 90):
        append(log, batch_of(1, timestamp=time))
    log.rearranger.truncate_to(3)
    assert log.reader.max_timestamp_offset() == (50, 1, 0)
    assert at(log, 51) is None
    append(log, batch_of(1, timestamp=40))
    assert at(log, 31) == (50, 1, 0)
    log.rearranger.truncate_to(1)
    assert log.reader.max_timestamp_offset() == (10, 0, 0)
    append(log, batch_of(1, timestamp=40))
    assert at(log, 11) == (40, 1, 0)

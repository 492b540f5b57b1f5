"""Transactions in the log: the last stable offset and what readers of committed data get."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import append, batch_of, crash, data, marker, open_log

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.storage.log import Log


def aborted(log: Log, start: int, end: int) -> list[tuple[int, int]]:
    return [(entry.producer_id, entry.first_offset) for entry in log.reader.aborted_transactions(start, end)]


def log_with_transactions(directory: Path, **settings: object) -> Log:
    """Producer 1 aborts [0, 4), 2 commits [1, 5), 3 aborts [6, 8), 4 is open from 8 on."""
    log = open_log(directory, **settings)
    append(log, data(1, 0, 0, transactional=True))  # 0
    append(log, data(2, 0, 0, transactional=True))  # 1
    append(log, batch_of(1))  # 2
    append(log, data(1, 0, 1, transactional=True))  # 3
    append(log, marker(1, 0, commit=False))  # 4
    append(log, marker(2, 0, commit=True))  # 5
    append(log, data(3, 0, 0, transactional=True))  # 6
    append(log, marker(3, 0, commit=False))  # 7
    append(log, data(4, 0, 0, transactional=True))  # 8
    append(log, batch_of(1))  # 9
    return log


@pytest.mark.parametrize("state", ["live", "reopened", "crashed", "crashed twice", "follower", "no snapshots"])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 200])
def test_the_same_is_known_however_the_log_came_to_be(tmp_path: Path, state: str, segment_bytes: int) -> None:
    log = log_with_transactions(tmp_path / "log", segment_bytes=segment_bytes)
    if state == "follower":
        follower = open_log(tmp_path / "follower", segment_bytes=segment_bytes)
        for segment in log.segments:
            follower.writer.append_as_follower(Path(segment.path).read_bytes())
        log = follower
    elif state != "live":
        if state.startswith("crashed"):
            crash(log)
        else:
            log.close()
        if state == "no snapshots":
            for path in (tmp_path / "log").glob("*.snapshot"):
                path.unlink()
        if state == "crashed twice":
            crash(open_log(tmp_path / "log", clean=False, segment_bytes=segment_bytes))
        log = open_log(tmp_path / "log", clean=not state.startswith("crashed"), segment_bytes=segment_bytes)
    assert log.log_end_offset == 10
    assert log.reader.first_unstable_offset == 8
    assert log.reader.last_stable_offset(10) == 8
    assert aborted(log, 0, 10) == [(1, 0), (3, 6)]
    assert aborted(log, 0, 4) == [(1, 0)]
    assert aborted(log, 5, 10) == [(3, 6)]
    assert aborted(log, 8, 10) == []
    with pytest.raises(BrokerError) as refused:
        append(log, data(4, 0, 1))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    append(log, marker(4, 0, commit=False))
    assert log.reader.last_stable_offset(11) == 11
    assert aborted(log, 8, 11) == [(4, 8)]


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, batch_of(1))
    assert log.reader.last_stable_offset(1) == 1
    append(log, data(1, 0, 0, transactional=True))
    assert log.reader.last_stable_offset(2) == 1
    append(log, marker(1, 0, commit=True))
    assert log.reader.last_stable_offset(2) == 1
    assert log.reader.last_stable_offset(3) == 3


def test_an_open_transaction_above_the_high_watermark_holds_nobody_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, batch_of(5))
    append(log, data(1, 0, 0, transactional=True))
    assert log.reader.last_stable_offset(3) == 3


def test_the_last_stable_offset_is_not_before_the_start_of_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0, 0, transactional=True))  # 0
    append(log, batch_of(3))  # 1 to 3
    log.rearranger.delete_records_before(2)
    assert log.reader.first_unstable_offset == 0
    assert log.reader.last_stable_offset(4) == 2


def test_a_refused_marker_is_not_written(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, data(1, 3, 0, transactional=True))
    with pytest.raises(BrokerError) as refused:
        append(log, marker(1, 2, commit=True))
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1
    assert log.reader.first_unstable_offset == 0


def test_truncation_takes_back_what_markers_decided(tmp_path: Path) -> None:
    log = log_with_transactions(tmp_path / "log")
    log.rearranger.truncate_to(7)
    assert log.reader.first_unstable_offset == 6
    assert aborted(log, 0, 10) == [(1, 0)]
    log.rearranger.truncate_to(4)
    assert log.reader.first_unstable_offset == 0
    assert aborted(log, 0, 10) == []
    append(log, marker(1, 0, commit=True))
    assert log.reader.first_unstable_offset == 1
    assert not (tmp_path / "log" / f"{0:020d}.txnindex").read_bytes()


def test_a_damaged_transaction_index_is_made_again_when_the_log_opens(tmp_path: Path) -> None:
    log_with_transactions(tmp_path / "log").close()
    index = tmp_path / "log" / f"{0:020d}.txnindex"
    good = index.read_bytes()
    assert len(good) == 2 * 34
    index.write_bytes(good[:-5])
    log = open_log(tmp_path / "log")
    assert aborted(log, 0, 10) == [(1, 0), (3, 6)]
    assert index.read_bytes() == good

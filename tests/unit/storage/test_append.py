"""Appending: what lands in the file, what is answered, when a new segment begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import (
    START_MS,
    Clock,
    append,
    append_many,
    batch_of,
    data,
    names_in,
    offsets_of,
    open_log,
)

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.batch import CorruptBatch, decode_header, iterate_headers, verify_crc
from tidelog.records.record import iterate_records
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log import Log
from tidelog.storage.log_writer import AppendResult


def log_file(directory: Path, base_offset: int = 0) -> bytes:
    return (directory / f"{base_offset:020d}.log").read_bytes()


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_only_offset_and_leader_epoch_change_on_the_way_to_the_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    first, second = batch_of(3), batch_of(2)
    assert append(log, first, leader_epoch=5) == AppendResult(0, 2, -1, False)
    assert append(log, second, leader_epoch=6) == AppendResult(3, 4, -1, False)
    expected = b"".join(
        offset.to_bytes(8, "big") + batch[8:12] + epoch.to_bytes(4, "big") + batch[16:]
        for offset, epoch, batch in ((0, 5, first), (3, 6, second))
    )
    content = log_file(tmp_path / "log")
    assert content == expected
    assert all(verify_crc(content, position, header) for position, header in iterate_headers(content))
    assert log.log_end_offset == 5
    assert log.size_bytes == len(content)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(5, 0), (6, 3)]


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(tmp_path: Path, form: type) -> None:
    log = open_log(tmp_path / "log")
    batch = batch_of(3)
    log.writer.append_as_leader(form(batch), decode_header(batch), 0, START_MS)
    assert log_file(tmp_path / "log")[16:] == batch[16:]


def test_log_append_time_stamps_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", message_timestamp_type="LogAppendTime")
    assert append(log, batch_of(3), now_ms=START_MS + 77).log_append_time_ms == START_MS + 77
    content = log_file(tmp_path / "log")
    header = decode_header(content)
    assert header.timestamp_type == 1
    assert verify_crc(content, 0, header)
    assert [record.timestamp for record in iterate_records(content)] == [START_MS + 77] * 3


def test_a_duplicate_is_answered_with_the_first_offsets_and_not_written(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, batch_of(2))
    append(log, data(7, 0, 0, count=3))
    append(log, data(7, 0, 3, count=3))
    size = log.size_bytes
    # The time is that of the batch, although the log did not stamp it: so answers Kafka.
    assert append(log, data(7, 0, 0, count=3)) == AppendResult(2, 4, START_MS + 2, True)
    assert (log.size_bytes, log.log_end_offset) == (size, 8)


def test_a_duplicate_of_a_stamped_batch_has_the_time_of_the_first(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", message_timestamp_type="LogAppendTime")
    append(log, data(7, 0, 0), now_ms=START_MS + 1)
    assert append(log, data(7, 0, 0), now_ms=START_MS + 9) == AppendResult(0, 0, START_MS + 1, True)


def test_a_refused_batch_leaves_no_trace(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, data(7, 1, 0))
    content = log_file(tmp_path / "log")
    for batch, code in (
        (data(7, 1, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (data(7, 0, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(BrokerError) as refused:
            append(log, batch)
        assert refused.value.code == code
    assert log_file(tmp_path / "log") == content
    assert append(log, data(7, 1, 1)).base_offset == 1


def test_segments_roll_before_they_exceed_their_size(tmp_path: Path) -> None:
    size = len(batch_of(10))
    log = open_log(tmp_path / "log", segment_bytes=3 * size)
    append_many(log, 7, 10, size=10)
    assert bases(log) == [0, 30, 60]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]
    assert log.log_end_offset == 70
    assert {"00000000000000000030.snapshot", "00000000000000000060.snapshot"} <= names_in(tmp_path / "log")


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    size = len(batch_of(10))
    log = open_log(tmp_path / "log", segment_bytes=size)
    append_many(log, 2, 10, size=10)
    with pytest.raises(BrokerError) as refused:
        append(log, batch_of(11))
    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert bases(log) == [0, 10]


@pytest.mark.parametrize(("later_ms", "rolls"), [(1000, False), (1001, True)])
def test_segments_roll_by_the_timestamp_of_their_first_batch(tmp_path: Path, later_ms: int, rolls: bool) -> None:
    log = open_log(tmp_path / "log", segment_ms=1000)
    append(log, batch_of(1, timestamp=START_MS))
    append(log, batch_of(1, timestamp=START_MS + later_ms))
    assert (len(log.segments) == 2) is rolls


def test_the_age_of_a_segment_counts_after_reopening_too(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_ms=1000)
    append(log, batch_of(1, timestamp=START_MS))
    log.close()
    log = open_log(tmp_path / "log", segment_ms=1000)
    append(log, batch_of(1, timestamp=START_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch_of(1, timestamp=START_MS + 1001))
    assert len(log.segments) == 2


def test_without_timestamps_the_clock_decides(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_ms=1000)
    append(log, batch_of(1, timestamp=-1), now_ms=START_MS)
    append(log, batch_of(1, timestamp=-1), now_ms=START_MS + 1000)
    assert len(log.segments) == 1
    append(log, batch_of(1, timestamp=-1), now_ms=START_MS + 1001)
    assert len(log.segments) == 2


@pytest.mark.parametrize(("policy", "age_ms"), [("compact", 400), ("compact,delete", 400), ("delete", 1000)])
def test_what_is_compacted_is_not_held_back_longer_than_it_may_wait(tmp_path: Path, policy: str, age_ms: int) -> None:
    settings = {"segment_ms": 1000, "max_compaction_lag_ms": 400, "cleanup_policy": frozenset(policy.split(","))}
    log = open_log(tmp_path / "log", **settings)
    append(log, batch_of(1, timestamp=START_MS))
    append(log, batch_of(1, timestamp=START_MS + age_ms))
    assert len(log.segments) == 1
    append(log, batch_of(1, timestamp=START_MS + age_ms + 1))
    assert len(log.segments) == 2


def test_jitter_only_shortens(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_ms=1000, segment_jitter_ms=500)
    append(log, batch_of(1, timestamp=START_MS))
    assert START_MS + 500 < log.active_segment.roll_timestamp <= START_MS + 1000


def test_a_full_index_begins_a_new_segment(tmp_path: Path) -> None:
    # Room for four entries of twelve bytes, of which the time index keeps one free.
    log = open_log(tmp_path / "log", segment_index_bytes=48, index_interval_bytes=0)
    append_many(log, 9, 1)
    assert bases(log) == [0, 4, 8]
    assert offsets_of(log) == [(offset, offset) for offset in range(9)]


def test_offsets_too_far_from_the_base_begin_a_new_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, batch_of(1))
    far = 2**31
    assert log.writer.append_as_follower(batch_of(1, base_offset=far - 1, partition_leader_epoch=0)) is not None
    assert bases(log) == [0]
    assert log.writer.append_as_follower(batch_of(1, base_offset=far, partition_leader_epoch=0)) is not None
    assert bases(log) == [0, far]
    assert offsets_of(log) == [(0, 0), (far - 1, far - 1), (far, far)]


def test_index_entries_name_the_last_offset_of_a_batch_every_interval(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", index_interval_bytes=1000)
    size = len(batch_of(2, size=200))
    assert 1000 / 3 < size < 1000 / 2
    append_many(log, 10, 2, size=200)
    assert log.active_segment.offset_index.entries() == [(7, 3 * size), (13, 6 * size), (19, 9 * size)]
    assert log.active_segment.time_index.entries() == [(START_MS + 1, 1)]


def test_rolling_by_hand(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    assert log.writer.roll() is log.active_segment
    assert bases(log) == [0], "an empty segment stays"
    append_many(log, 2)
    log.writer.roll()
    log.writer.roll()
    assert bases(log) == [0, 20]
    append_many(log, 1)
    assert offsets_of(log) == [(0, 9), (10, 19), (20, 29)]


def test_new_settings_hold_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 2)
    log.update_config(open_log(tmp_path / "other", segment_bytes=len(batch_of(10, size=100))).config)
    append_many(log, 2)
    assert bases(log) == [0, 20, 30]


def test_a_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fetched = b"".join(
        [
            batch_of(3, base_offset=0, partition_leader_epoch=1),
            batch_of(2, base_offset=3, partition_leader_epoch=1),
            batch_of(2, base_offset=9, partition_leader_epoch=4),
        ]
    )
    assert log.writer.append_as_follower(fetched) == AppendResult(0, 10, -1, False)
    assert log_file(tmp_path / "log") == fetched
    assert log.log_end_offset == 11
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (4, 9)]
    assert log.writer.append_as_follower(b"") is None


def test_a_follower_leaves_out_what_was_cut_short(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    whole, cut = batch_of(3, base_offset=0), batch_of(3, base_offset=3)
    assert log.writer.append_as_follower(whole + cut[:-1]) == AppendResult(0, 2, -1, False)
    assert log_file(tmp_path / "log") == whole
    assert log.writer.append_as_follower(cut[:30]) is None


def test_a_follower_refuses_what_does_not_continue_its_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.writer.append_as_follower(batch_of(3, base_offset=0))
    content = log_file(tmp_path / "log")
    damaged = bytearray(batch_of(3, base_offset=6))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.writer.append_as_follower(batch_of(3, base_offset=3) + damaged)
    for offset in (0, 2):
        with pytest.raises(BrokerError):
            log.writer.append_as_follower(batch_of(3, base_offset=offset))
    assert log_file(tmp_path / "log") == content
    assert log.log_end_offset == 3


def test_a_follower_rolls_like_a_leader(tmp_path: Path) -> None:
    size = len(batch_of(5))
    log = open_log(tmp_path / "log", segment_bytes=2 * size)
    log.writer.append_as_follower(b"".join(batch_of(5, base_offset=offset) for offset in range(0, 25, 5)))
    assert bases(log) == [0, 10, 20]
    assert offsets_of(log) == [(offset, offset + 4) for offset in range(0, 25, 5)]


def test_a_follower_remembers_producers_it_did_not_check(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    leader = open_log(tmp_path / "leader")
    for batch in (data(7, 0, 0, 3), data(7, 0, 3, 3)):
        append(leader, batch)
    log.writer.append_as_follower(log_file(tmp_path / "leader"))
    assert log.producer_state.snapshot() == leader.producer_state.snapshot()
    assert append(log, data(7, 0, 0, 3)).duplicate


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", Clock())
    append_many(log, 1)
    log.close()
    log.close()
    with pytest.raises(StorageFailure):
        append_many(log, 1)
    assert open_log(tmp_path / "log").log_end_offset == 10


def test_preallocated_room_is_behind_the_end_of_the_file_and_given_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=1 << 20, preallocate=True)
    first = Path(log.active_segment.path)
    if first.stat().st_blocks * 512 < 1 << 20:
        pytest.skip("the file system cannot reserve blocks")
    append(log, batch_of(1))
    assert first.stat().st_size == log.active_segment.size
    log.writer.roll()
    assert first.stat().st_blocks * 512 < 100_000
    second = Path(log.active_segment.path)
    assert second.stat().st_blocks * 512 >= 1 << 20
    append(log, batch_of(1))
    log.close()
    assert second.stat().st_blocks * 512 < 100_000
    again = open_log(tmp_path / "log", preallocate=True)
    assert again.log_end_offset == 2

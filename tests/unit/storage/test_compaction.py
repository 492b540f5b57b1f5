"""What compaction keeps and drops, by Kafka's rules, and what it must leave untouched."""

from pathlib import Path

import pytest
from tests.unit.storage.partition_log import (
    COMPACT,
    NOW,
    append,
    compact,
    config,
    contents,
    end_transaction,
    open_log,
    read_batches,
    visible,
)

from tidelog.codec.compression import CompressionType
from tidelog.model.errors import BrokerError
from tidelog.records.batch import decode_header, verify_crc
from tidelog.records.control import decode_end_txn_marker
from tidelog.storage.compaction import find_cleanable, finish_compaction, is_worth_compacting, plan_compaction
from tidelog.storage.compaction_pass import KeyOffsets, run_pass
from tidelog.storage.errors import CorruptLog
from tidelog.storage.inspect import verify_log
from tidelog.storage.log import Log
from tidelog.storage.retention import apply_retention

DAY = 86_400_000


def compacted_log(directory: Path, **settings: object) -> Log:
    return open_log(directory, **{"cleanup_policy": COMPACT, "segment_jitter_ms": 0, **settings})


def offsets(log: Log) -> list[int]:
    return [record.offset for record in visible(log)]


def intact(log: Log) -> None:
    """Every batch has the right checksum and every index fits."""
    for batch in read_batches(log):
        assert verify_crc(batch, 0, decode_header(batch))
    report = verify_log(log.directory, open_records=True)
    assert [str(problem) for problem in report.problems] == []


@pytest.mark.parametrize("codec", list(CompressionType))
def test_the_last_record_of_each_key_stays_where_it_was(tmp_path: Path, codec: CompressionType) -> None:
    log = compacted_log(tmp_path)
    for round_ in range(3):
        append(log, [(b"k%d" % key, b"v%d" % round_) for key in range(round_, 6)], compression=codec)
        log.writer.roll()
    append(log, [(b"k5", b"active")])
    before = contents(log)
    assert compact(log) == 15
    assert contents(log) == before
    # Three rounds of keys 0-5, 1-5, 2-5: k0 is from the first, k1 from the second; the active segment is as it was.
    assert offsets(log) == [0, 6, 11, 12, 13, 14, 15]
    assert log.log_end_offset == 16
    intact(log)
    log.close()
    again = open_log(tmp_path)
    assert contents(again) == before
    assert again.log_end_offset == 16


def test_timestamps_and_headers_stay(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    append(log, [(b"a", b"old"), (b"b", b"kept"), (b"a", b"new")], timestamp=NOW - 5000)
    log.writer.roll()
    kept = [record for record in visible(log) if record.offset > 0]
    compact(log)
    assert visible(log) == kept
    assert all(record.timestamp == NOW - 5000 for record in kept)
    found = log.reader.offset_for_timestamp(NOW - 5000)
    assert found is not None
    assert found.offset == 1


def test_segments_grow_together(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    for at in range(10):
        append(log, [(b"key%d" % at, b"v" * 1000)])
        log.writer.roll()
    assert len(log.segments) == 11
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert offsets(log) == list(range(10))
    # A segment size that holds only three keeps them apart.
    other = compacted_log(tmp_path / "other", internal_segment_bytes=3500)
    for at in range(10):
        append(other, [(b"key%d" % at, b"v" * 1000)])
        other.writer.roll()
    compact(other)
    assert [segment.base_offset for segment in other.segments] == [0, 3, 6, 9, 10]
    intact(other)


def test_a_tombstone_outlives_its_value_until_the_horizon(tmp_path: Path) -> None:
    log = compacted_log(tmp_path, delete_retention_ms=DAY)
    append(log, [(b"gone", b"value"), (b"stays", b"value")])
    append(log, [(b"gone", None), (b"other", b"value")])
    log.writer.roll()
    clean = compact(log)
    assert [(record.key, record.value) for record in visible(log)] == [
        (b"stays", b"value"),
        (b"gone", None),
        (b"other", b"value"),
    ]
    (horizon,) = [header for header in map(decode_header, read_batches(log)) if header.has_delete_horizon]
    assert horizon.base_timestamp == NOW + DAY
    assert {record.timestamp for record in visible(log)} == {NOW}
    compact(log, clean, now_ms=NOW + DAY - 1)
    assert b"gone" in contents(log)
    (same,) = [header for header in map(decode_header, read_batches(log)) if header.has_delete_horizon]
    assert same.base_timestamp == NOW + DAY
    compact(log, clean, now_ms=NOW + DAY)
    assert contents(log) == {b"stays": b"value", b"other": b"value"}
    assert {record.timestamp for record in visible(log)} == {NOW}
    intact(log)


def test_records_without_a_key_go(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    append(log, [(None, b"from before the topic was compacted"), (b"", b"an empty key is one")])
    log.writer.roll()
    compact(log)
    assert contents(log) == {b"": b"an empty key is one"}


def test_long_keys_are_told_apart(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    keys = [b"x" * 15, b"x" * 16, b"x" * 17, b"x" * 1000, b"x" * 999 + b"y"]
    for value in (b"old", b"new"):
        append(log, [(key, value) for key in keys])
    log.writer.roll()
    compact(log)
    assert contents(log) == dict.fromkeys(keys, b"new")
    assert offsets(log) == [5, 6, 7, 8, 9]


def test_a_full_map_takes_several_passes(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    for round_ in range(2):
        for key in range(20):
            append(log, [(b"k%d" % key, b"%d" % round_)])
    log.writer.roll()
    before = contents(log)
    clean = 0
    passes = 0
    while clean < 40:
        further = compact(log, clean, keys_max=7)
        assert further > clean
        clean = further
        passes += 1
        assert contents(log) == before
    assert passes >= 3
    assert offsets(log) == list(range(20, 40))
    intact(log)


def test_the_map_is_bounded() -> None:
    keys = KeyOffsets(2)
    assert keys.put(b"a", 1)
    assert keys.put(b"b", 2)
    assert not keys.put(b"c", 3)
    assert keys.put(b"a", 4)
    assert (len(keys), keys.latest_offset) == (2, 4)
    assert keys.is_superseded(b"a", 1)
    assert not keys.is_superseded(b"a", 4)
    assert not keys.is_superseded(b"c", 0)


# -- what may be compacted ---------------------------------------------------------------------------------------------


def test_cleanable_range(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    for at in range(4):
        append(log, [(b"k", b"v" * 100)], timestamp=NOW - (3 - at) * DAY)
        log.writer.roll()
    size = log.segments[0].size
    whole = find_cleanable(log, 0, log.log_end_offset, NOW)
    assert (whole.first_dirty_offset, whole.first_uncleanable_offset) == (0, 4)
    assert (whole.clean_bytes, whole.dirty_bytes, whole.oldest_dirty_ms) == (0, 4 * size, NOW - 3 * DAY)
    half = find_cleanable(log, 2, log.log_end_offset, NOW)
    assert (half.clean_bytes, half.dirty_bytes, half.dirty_ratio) == (2 * size, 2 * size, 0.5)
    # Nothing at or above the last stable offset, in whole segments.
    assert find_cleanable(log, 0, 2, NOW).first_uncleanable_offset == 2
    # An offset that does not fit the log means that nothing is known to be clean.
    assert find_cleanable(log, 99, log.log_end_offset, NOW).first_dirty_offset == 0
    log.update_config(config(cleanup_policy=COMPACT, min_compaction_lag_ms=DAY + 1))
    assert find_cleanable(log, 0, log.log_end_offset, NOW).first_uncleanable_offset == 2


def test_the_dirty_ratio_and_the_longest_lag(tmp_path: Path) -> None:
    log = compacted_log(tmp_path, min_cleanable_dirty_ratio=0.5)
    for _ in range(4):
        append(log, [(b"k", b"v" * 100)], timestamp=NOW - DAY)
        log.writer.roll()
    half = find_cleanable(log, 2, log.log_end_offset, NOW)
    assert not is_worth_compacting(log, half, NOW)
    assert is_worth_compacting(log, find_cleanable(log, 1, log.log_end_offset, NOW), NOW)
    assert not is_worth_compacting(log, find_cleanable(log, 4, log.log_end_offset, NOW), NOW)
    log.update_config(config(cleanup_policy=COMPACT, max_compaction_lag_ms=DAY))
    assert not is_worth_compacting(log, half, NOW)
    assert is_worth_compacting(log, half, NOW + 1)


# -- producers and transactions ----------------------------------------------------------------------------------------


def test_duplicates_are_still_recognised_after_compaction_and_a_crash(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    for at in range(3):
        append(log, [(b"k", b"%d" % at)], producer_id=7, producer_epoch=0, base_sequence=at)
    append(log, [(b"k", b"winner")])
    log.writer.roll()
    compact(log)
    assert contents(log) == {b"k": b"winner"}
    empty = [header for header in map(decode_header, read_batches(log)) if header.record_count == 0]
    assert [(header.producer_id, header.base_sequence, header.base_offset) for header in empty] == [(7, 2, 2)]
    intact(log)
    for snapshot in Path(log.directory).glob("*.snapshot"):
        snapshot.unlink()
    log.close(clean=False)
    again = open_log(tmp_path, clean=False)
    result = append(again, [(b"k", b"2")], producer_id=7, producer_epoch=0, base_sequence=2)
    assert (result.duplicate, result.base_offset) == (True, 2)
    with pytest.raises(BrokerError):
        append(again, [(b"k", b"9")], producer_id=7, producer_epoch=0, base_sequence=9)
    assert append(again, [(b"k", b"3")], producer_id=7, producer_epoch=0, base_sequence=3).base_offset == 4


def test_aborted_data_goes_and_committed_data_stays(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    txn = {"producer_epoch": 0, "transactional": True}
    append(log, [(b"a", b"before"), (b"b", b"before")])
    append(log, [(b"a", b"aborted"), (b"c", b"aborted")], producer_id=1, base_sequence=0, **txn)
    append(log, [(b"b", b"committed")], producer_id=2, base_sequence=0, **txn)
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    append(log, [(b"d", b"next")], producer_id=1, base_sequence=2, **txn)
    end_transaction(log, 1, commit=True)
    log.writer.roll()
    assert [entry.producer_id for entry in log.reader.aborted_transactions(0, 99)] == [1]
    clean = compact(log)
    assert contents(log) == {b"a": b"before", b"b": b"committed", b"d": b"next"}
    markers = [decode_end_txn_marker(batch) for batch in read_batches(log) if decode_header(batch).is_control]
    # All markers stay for now, and the aborted transaction stays in the index: readers may hold its data.
    assert [(marker.producer_id, marker.commit) for marker in markers if marker] == [(1, False), (2, True), (1, True)]
    assert [entry.producer_id for entry in log.reader.aborted_transactions(0, 99)] == [1]
    intact(log)
    # The next pass finds the abort marker without data and gives it a horizon; after that it goes.
    compact(log, clean)
    horizons = [header.producer_id for header in map(decode_header, read_batches(log)) if header.has_delete_horizon]
    assert horizons == [1]
    compact(log, clean, now_ms=NOW + DAY)
    markers = [decode_end_txn_marker(batch) for batch in read_batches(log) if decode_header(batch).is_control]
    assert [(marker.producer_id, marker.commit) for marker in markers if marker] == [(2, True), (1, True)]
    assert log.reader.aborted_transactions(0, 99) == []
    assert contents(log) == {b"a": b"before", b"b": b"committed", b"d": b"next"}
    intact(log)


def test_an_open_transaction_stops_compaction(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    append(log, [(b"a", b"1")])
    append(log, [(b"a", b"2")])
    log.writer.roll()
    append(log, [(b"a", b"open")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, [(b"a", b"3")])
    log.writer.roll()
    assert compact(log) == 2
    assert offsets(log) == [1, 2, 3]
    end_transaction(log, 1, commit=False)
    log.writer.roll()
    assert compact(log, 2) == 5
    assert [(record.offset, record.value) for record in visible(log)] == [(3, b"3")]


def test_an_older_abort_does_not_reach_into_the_dirty_part(tmp_path: Path) -> None:
    """The map is built from the dirty part on, where a producer whose earlier transaction aborted now commits."""
    log = compacted_log(tmp_path)
    txn = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    append(log, [(b"a", b"aborted")], base_sequence=0, **txn)
    end_transaction(log, 1, commit=False)
    append(log, [(b"a", b"old")])
    log.writer.roll()
    append(log, [(b"a", b"new")], base_sequence=1, **txn)
    end_transaction(log, 1, commit=True)
    log.writer.roll()
    compact(log, 3)
    assert contents(log) == {b"a": b"new"}
    assert offsets(log) == [3]


# -- passes and the owner ----------------------------------------------------------------------------------------------


def test_appends_go_on_during_a_pass(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    append(log, [(b"a", b"1"), (b"a", b"2")])
    log.writer.roll()
    plan = plan_compaction(log, find_cleanable(log, 0, log.log_end_offset, NOW), NOW)
    append(log, [(b"a", b"3")])
    result = run_pass(plan)
    append(log, [(b"a", b"4")])
    log.writer.roll()
    assert finish_compaction(log, plan, result)
    assert [record.value for record in visible(log)] == [b"2", b"3", b"4"]
    intact(log)


@pytest.mark.parametrize("change", ["truncate", "retention", "close"])
def test_a_log_that_changed_meanwhile_refuses_the_result(tmp_path: Path, change: str) -> None:
    log = compacted_log(tmp_path)
    for value in (b"1", b"2", b"3"):
        append(log, [(b"a", value)])
        log.writer.roll()
    plan = plan_compaction(log, find_cleanable(log, 0, log.log_end_offset, NOW), NOW)
    result = run_pass(plan)
    if change == "truncate":
        log.rearranger.truncate_to(2)
        append(log, [(b"a", b"other")])
        log.writer.roll()
    elif change == "retention":
        log.rearranger.delete_records_before(1)
        apply_retention(log, 3, NOW)
    else:
        log.close()
    left = sorted(path.name for path in Path(log.directory).glob("*.log"))
    assert not finish_compaction(log, plan, result)
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == left
    assert list(Path(log.directory).glob("*.cleaned")) == []


def test_damage_is_not_copied(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    append(log, [(b"a", b"1" * 100)])
    append(log, [(b"a", b"2" * 100)])
    log.writer.roll()
    path = Path(log.segments[0].path)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    plan = plan_compaction(log, find_cleanable(log, 0, log.log_end_offset, NOW), NOW)
    with pytest.raises(CorruptLog):
        run_pass(plan)
    assert list(path.parent.glob("*.cleaned")) == []
    assert path.read_bytes() == content


@pytest.mark.parametrize("step", ["cleaned", "swap", "old gone"])
def test_a_crash_during_the_swap_leaves_a_whole_log(tmp_path: Path, step: str) -> None:
    log = compacted_log(tmp_path)
    for at in range(3):
        append(log, [(b"a", b"%d" % at), (b"b%d" % at, b"x")])
        log.writer.roll()
    append(log, [(b"z", b"active")])
    before = contents(log)
    plan = plan_compaction(log, find_cleanable(log, 0, log.log_end_offset, NOW), NOW)
    result = run_pass(plan)
    (new,) = result.segments
    if step != "cleaned":
        new.close_indexes()
        new.move_to(suffix=".swap")
    if step == "old gone":
        log.segments[0].delete()
        log.segments[1].delete()
    log.close(clean=False)
    again = open_log(tmp_path, clean=False)
    assert contents(again) == before
    assert again.log_end_offset == 7
    expected = [0, 1, 2, 3, 4, 5, 6] if step == "cleaned" else [1, 3, 4, 5, 6]
    assert offsets(again) == expected
    assert [
        path.name for path in Path(again.directory).iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")
    ] == []
    intact(again)


def test_the_end_of_a_group_stays_known(tmp_path: Path) -> None:
    """Even if everything at the end was superseded, so that a swap finished after a crash covers the whole group."""
    log = compacted_log(tmp_path)
    append(log, [(b"a", b"1")])
    log.writer.roll()
    append(log, [(b"b", b"1")])
    log.writer.roll()
    append(log, [(b"b", b"2"), (b"b", b"3")])
    log.writer.roll()
    log.rearranger.delete_records_before(1)
    compact(log, 1)
    headers = [decode_header(batch) for batch in read_batches(log)]
    assert headers[-1].last_offset == 3
    assert contents(log) == {b"b": b"3"}

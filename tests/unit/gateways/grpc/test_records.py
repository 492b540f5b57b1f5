from __future__ import annotations

from tidelog.gateways.access import Fetched
from tidelog.gateways.grpc.records import FetchedRecords, take
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker


def batch(offset: int, *values: bytes, producer_id: int = -1, compression: int = 0) -> bytes:
    return build_batch(
        [NewRecord(None, value, 1) for value in values],
        base_offset=offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def marker(offset: int, producer_id: int, commit: bool) -> bytes:
    return build_end_txn_marker(
        producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, timestamp=1, base_offset=offset
    )


def fetched(data: bytes, *aborted: tuple[int, int]) -> Fetched:
    return Fetched(100, 100, 0, aborted, data)


def values_of(found: FetchedRecords) -> list[bytes | None]:
    return [record.value for record in found]


def test_records_before_the_offset_are_left_out() -> None:
    found = FetchedRecords(fetched(batch(0, b"a", b"b", b"c", compression=4)), 1)
    assert values_of(found) == [b"b", b"c"]
    assert found.next_offset == 3


def test_the_next_offset_is_right_at_any_moment() -> None:
    found = FetchedRecords(fetched(batch(0, b"a", b"b")), 0)
    iterator = iter(found)
    assert (next(iterator).value, found.next_offset) == (b"a", 1)
    assert (next(iterator).value, found.next_offset) == (b"b", 2)


def test_a_batch_that_is_cut_short_is_left_for_the_next_fetch() -> None:
    found = FetchedRecords(fetched(batch(0, b"a") + batch(1, b"b")[:-1]), 0)
    assert values_of(found) == [b"a"]
    assert found.next_offset == 1


def test_aborted_transactions_and_marks_are_not_seen() -> None:
    data = batch(0, b"aborted", producer_id=7) + batch(1, b"other", producer_id=8) + batch(2, b"plain")
    data += marker(3, 7, commit=False) + marker(4, 8, commit=True) + batch(5, b"later", producer_id=7)
    found = FetchedRecords(fetched(data, (7, 0)), 0)
    assert values_of(found) == [b"other", b"plain", b"later"]
    assert found.next_offset == 6


def test_a_fetch_that_begins_inside_an_aborted_transaction() -> None:
    data = batch(10, b"aborted", producer_id=7) + marker(11, 7, commit=False)
    found = FetchedRecords(fetched(data, (7, 3)), 10)
    assert values_of(found) == []
    assert found.next_offset == 12


def test_take_ends_near_the_size() -> None:
    data = batch(0, *[b"x" * 100] * 10, compression=4)
    records, next_offset = take(FetchedRecords(fetched(data), 0), 400)
    assert (len(records), next_offset) == (2, 2)
    assert len(take(FetchedRecords(fetched(data), 0), 1)[0]) == 1
    assert take(FetchedRecords(fetched(data), 0), 10**6)[1] == 10
    assert take(FetchedRecords(fetched(b""), 5), 10) == ([], 5)

"""Records of one request on their way to partitions: in batches, in order, each with its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.gateways.access import Appended, LeaderElsewhere, LogAccess
from tidelog.gateways.http.proxy.appending import BATCH_BYTES, RecordOutcome, append
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.builder import NewRecord
from tidelog.records.record import iterate_records


class FakeAccess:
    """Appends to lists, unless `refuse` has something against the values of a batch."""

    def __init__(self, refuse: Callable[[list[bytes | None]], BrokerError | None] = lambda values: None) -> None:
        self.log: dict[int, list[bytes | None]] = {}
        self.batches: list[list[bytes | None]] = []
        self.asked_at: list[int | None] = []
        self._refuse = refuse

    async def produce(self, topic: str, index: int, batch: bytes, *, at: int | None = None) -> Appended:
        values = [record.value for record in iterate_records(batch)]
        self.asked_at.append(at)
        error = self._refuse(values)
        if error is not None and (at is None or not isinstance(error, LeaderElsewhere)):
            raise error
        log = self.log.setdefault(index, [])
        log += values
        self.batches.append(values)
        return Appended(len(log) - len(values), -1)


def run(access: FakeAccess, by_partition: dict[int, list[bytes]]) -> dict[int, list[RecordOutcome]]:
    records = {index: [NewRecord(None, value, 0) for value in values] for index, values in by_partition.items()}
    return asyncio.run(append(cast("LogAccess", access), "clicks", records))


def test_each_partition_gets_its_own_in_order() -> None:
    access = FakeAccess()
    outcomes = run(access, {0: [b"a", b"b"], 3: [b"c"]})
    assert outcomes == {0: [RecordOutcome(0), RecordOutcome(1)], 3: [RecordOutcome(0)]}
    assert access.log == {0: [b"a", b"b"], 3: [b"c"]}


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([BATCH_BYTES], [1]),
        ([BATCH_BYTES - 1, 1], [2]),
        ([BATCH_BYTES - 1, 2], [1, 1]),
        ([2 * BATCH_BYTES, 1, 1], [1, 2]),
        ([1] * 5, [5]),
    ],
)
def test_batches_have_a_size(sizes: list[int], batches: list[int]) -> None:
    access = FakeAccess()
    outcomes = run(access, {0: [b"x" * size for size in sizes]})
    assert [len(batch) for batch in access.batches] == batches
    assert [outcome.offset for outcome in outcomes[0]] == list(range(len(sizes)))


def test_a_topic_that_takes_small_batches_gets_them() -> None:
    access = FakeAccess(lambda values: BrokerError(ErrorCode.MESSAGE_TOO_LARGE) if len(values) > 2 else None)
    values = [bytes([number]) for number in range(9)]
    assert [outcome.offset for outcome in run(access, {0: values})[0]] == list(range(9))
    assert access.log[0] == values


def test_a_record_that_is_too_large_keeps_no_other_back() -> None:
    access = FakeAccess(lambda values: BrokerError(ErrorCode.MESSAGE_TOO_LARGE) if b"large" in values else None)
    outcomes = run(access, {0: [b"a", b"large", b"b"]})[0]
    assert [(each.offset, each.error and each.error.code) for each in outcomes] == [
        (0, None),
        (-1, ErrorCode.MESSAGE_TOO_LARGE),
        (1, None),
    ]


def test_nothing_is_appended_behind_a_record_that_may_come_again() -> None:
    large = b"x" * BATCH_BYTES

    def refuse(values: list[bytes | None]) -> BrokerError | None:
        return BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS) if values == [b"b" + large] else None

    access = FakeAccess(refuse)
    outcomes = run(access, {0: [b"a" + large, b"b" + large, b"c" + large], 1: [b"d"]})
    assert [each.error is None for each in outcomes[0]] == [True, False, False]
    assert outcomes[1] == [RecordOutcome(0)]


def test_the_leader_is_asked_elsewhere() -> None:
    access = FakeAccess(lambda _: LeaderElsewhere("clicks", 0, 2))
    assert run(access, {0: [b"a"]}) == {0: [RecordOutcome(0)]}
    assert access.asked_at == [None, 2]


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_is_wrong_with_all_is_an_error_of_the_request(code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as refused:
        run(FakeAccess(lambda _: BrokerError(code)), {0: [b"a"], 1: [b"b"]})
    assert refused.value.code is code


def test_no_leader_is_an_outcome() -> None:
    def refuse(_: Any) -> BrokerError:
        return LeaderElsewhere("clicks", 0, None)

    [outcome] = run(FakeAccess(refuse), {0: [b"a"]})[0]
    assert outcome.error is not None
    assert outcome.error.code.is_retriable

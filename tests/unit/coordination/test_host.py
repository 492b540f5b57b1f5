"""The host with the smallest core there is: numbers by name, and callers that wait until a name has a number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.coordination.memory_log import MemoryLog
from tests.waiting import eventually

from tidelog.coordination.decision import Decision, Moment
from tidelog.coordination.host import CoreHost, HostState
from tidelog.coordination.log import LoadedBatch
from tidelog.model.errors import BrokerError, ErrorCode

pytestmark = pytest.mark.anyio
Set = tuple[str, int]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Numbers:
    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.waiting: dict[str, list[int]] = {}
        self.due_ms: int | None = None
        self.expired = 0
        self.ended: list[tuple[int, bool]] = []
        self.replayed: list[tuple[Set, int, int]] = []

    def encode_records(self, records: Sequence[Set]) -> list[tuple[bytes, bytes | None]]:
        return [(key.encode(), str(value).encode()) for key, value in records]

    def decode_record(self, key: bytes, value: bytes | None) -> Set | None:
        if key == b"?":
            return None
        return key.decode(), int(value or b"damaged")

    def replay(self, record: Set, offset: int, producer_id: int) -> None:
        self.replayed.append((record, offset, producer_id))
        self.values[record[0]] = record[1]

    def replay_records(self, records: Sequence[Set], offset: int, producer_id: int) -> None:
        for at, record in enumerate(records, offset):
            self.replay(record, at, producer_id)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        self.ended.append((producer_id, committed))

    def decide_set(self, request: Set, now: Moment) -> Decision[str]:
        decision = Decision(f"{request[0]}={request[1]}")
        decision.records.append(request)
        for token in self.waiting.pop(request[0], ()):
            decision.release(token, request[1])
        return decision

    def decide_set_or_complain(self, request: Set, now: Moment) -> Decision[str]:
        decision = self.decide_set(request, now)

        def complain(failed: Decision[str], error: ErrorCode, at: Moment) -> None:
            failed.reply = error.name

        decision.failures.append(complain)
        return decision

    def get(self, name: str, now: Moment) -> Decision[int | None]:
        return Decision(self.values.get(name))

    def decide_wait(self, name: str, token: int, now: Moment) -> Decision[int | None]:
        if name not in self.values:
            self.waiting.setdefault(name, []).append(token)
        return Decision(self.values.get(name))

    def decide_expire_in(self, delay_ms: int, now: Moment) -> Decision[None]:
        self.due_ms = now.ticks_ms + delay_ms
        return Decision(None)

    def decide_loaded(self, now: Moment) -> Decision[None]:
        return Decision(None)

    def deadline_ms(self) -> int | None:
        return self.due_ms

    def decide_deadlines(self, now: Moment) -> Decision[None]:
        if self.due_ms is not None and now.ticks_ms >= self.due_ms:
            self.due_ms = None
            self.expired += 1
        return Decision(None)

    def decide_unloaded(self) -> Decision[None]:
        decision = Decision(None)
        for tokens in self.waiting.values():
            for token in tokens:
                decision.release(token, -1)
        return decision


@asynccontextmanager
async def hosted(log: MemoryLog, *, commit_timeout_ms: int = 5000) -> AsyncIterator[CoreHost[Numbers]]:
    host = CoreHost(Numbers(), log, name="numbers", commit_timeout_ms=commit_timeout_ms)
    await host.load()
    yield host
    host.unload()


async def answer(host: CoreHost[Numbers], name: str) -> int:
    reply, later = host.submit_or_park(host.core.decide_wait, name)
    if reply is not None:
        return reply
    assert later is not None
    return await later


async def test_a_request_is_written_replayed_and_answered() -> None:
    log = MemoryLog()
    async with hosted(log) as host:
        assert await host.execute(host.core.decide_set, ("a", 1)) == "a=1"
        assert log.batches_written == [[(b"a", b"1")]]
        assert host.core.values == {"a": 1}


async def test_submit_needs_no_turn_of_the_loop_when_everything_is_committed() -> None:
    async with hosted(MemoryLog()) as host:
        assert host.submit(host.core.decide_set, ("a", 1)) == ("a=1", None)


async def test_a_reply_waits_for_the_commit() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log) as host:
        task = asyncio.create_task(host.execute(host.core.decide_set, ("a", 1)))
        await asyncio.sleep(0)
        assert host.core.values == {"a": 1}, "replayed as soon as it is appended"
        assert not task.done()
        log.commit()
        assert await task == "a=1"


async def test_a_commit_that_comes_before_it_is_awaited_is_not_missed() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log, commit_timeout_ms=60_000) as host:
        first, second = (host.submit(host.core.decide_set, ("a", number))[1] for number in (1, 2))
        assert first is not None
        assert second is not None
        log.commit(1)
        async with asyncio.timeout(30):
            await first
        log.commit()
        async with asyncio.timeout(30):
            await second


async def test_a_question_waits_for_what_it_has_seen_to_be_committed() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log) as host:
        write = asyncio.create_task(host.execute(host.core.decide_set, ("a", 1)))
        await asyncio.sleep(0)
        read = asyncio.create_task(host.execute(host.core.get, "a"))
        await asyncio.sleep(0)
        assert not read.done()
        log.commit()
        assert await read == 1
        await write


async def test_replies_leave_as_far_as_the_high_watermark_reaches() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log) as host:
        tasks = [asyncio.create_task(host.execute(host.core.decide_set, ("a", n))) for n in range(3)]
        await asyncio.sleep(0)
        log.commit(2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [task.done() for task in tasks] == [True, True, False]
        log.commit()
        await asyncio.gather(*tasks)


async def test_a_parked_request_is_released_by_another_and_only_once_that_is_committed() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log) as host:
        waiter = asyncio.create_task(answer(host, "a"))
        await asyncio.sleep(0)
        writer = asyncio.create_task(host.execute(host.core.decide_set, ("a", 7)))
        await asyncio.sleep(0)
        assert not waiter.done()
        log.commit()
        assert await waiter == 7
        assert await writer == "a=7"


async def test_a_caller_that_went_away_is_forgotten() -> None:
    async with hosted(MemoryLog()) as host:
        waiter = asyncio.create_task(answer(host, "a"))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert await host.execute(host.core.decide_set, ("a", 7)) == "a=7"


async def test_a_write_that_is_never_committed_is_answered_in_time() -> None:
    async with hosted(MemoryLog(commits_at_once=False), commit_timeout_ms=20) as host:
        with pytest.raises(BrokerError) as caught:
            await host.execute(host.core.decide_set, ("a", 1))
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_who_was_answered_in_time_is_not_remembered_until_the_commit() -> None:
    async with hosted(log := MemoryLog(commits_at_once=False), commit_timeout_ms=20) as host:
        asked = [asyncio.ensure_future(host.execute(host.core.decide_set, ("a", number))) for number in range(10)]
        await asyncio.wait(asked)
        assert all(isinstance(each.exception(), BrokerError) for each in asked)
        assert host.awaiting_commit_count == 0
        question = asyncio.ensure_future(host.execute(host.core.get, "a"))
        await asyncio.sleep(0)
        log.commit()
        assert await question == 9


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_refused_append_changes_nothing_and_is_told_in_the_coordinators_words(
    refused: ErrorCode, told: ErrorCode
) -> None:
    log = MemoryLog()
    async with hosted(log) as host:
        log.refusal = BrokerError(refused)
        with pytest.raises(BrokerError) as caught:
            await host.execute(host.core.decide_set, ("a", 1))
        assert caught.value.code is told
        assert host.core.values == {}
        assert await host.execute(host.core.decide_set_or_complain, ("a", 1)) == told.name
        log.refusal = None
        assert await host.execute(host.core.decide_set, ("a", 1)) == "a=1"


async def test_a_restart_is_a_replay() -> None:
    log = MemoryLog()
    async with hosted(log) as host:
        for name, number in [("a", 1), ("b", 2), ("a", 3)]:
            await host.execute(host.core.decide_set, (name, number))
    async with hosted(log) as host:
        assert host.core.values == {"a": 3, "b": 2}


async def test_requests_while_loading_and_after_unloading_are_refused() -> None:
    log = MemoryLog()
    host = CoreHost(Numbers(), log, name="numbers")
    with pytest.raises(BrokerError) as caught:
        await host.execute(host.core.get, "a")
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await host.load()
    assert await host.execute(host.core.get, "a") is None
    host.unload()
    assert log.is_closed
    with pytest.raises(BrokerError) as caught:
        await host.execute(host.core.get, "a")
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


async def test_unloading_answers_everyone_who_waits() -> None:
    log = MemoryLog(commits_at_once=False)
    async with hosted(log) as host:
        parked = asyncio.create_task(answer(host, "a"))
        uncommitted = asyncio.create_task(host.execute(host.core.decide_set, ("b", 1)))
        released = asyncio.create_task(answer(host, "c"))
        await asyncio.sleep(0)
        setter = asyncio.create_task(host.execute(host.core.decide_set, ("c", 1)))
        await asyncio.sleep(0)
        log.lose()
        assert host.state is HostState.CLOSED
        assert await parked == -1
        for task in (uncommitted, released, setter):
            with pytest.raises(BrokerError) as caught:
                await task
            assert caught.value.code is ErrorCode.NOT_COORDINATOR


async def test_damaged_and_unknown_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    log.append([(b"a", b"1"), (b"?", b"2"), (b"b", b"not a number"), (b"c", b"3")], 0)
    async with hosted(log) as host:
        assert host.core.values == {"a": 1, "c": 3}
    assert "coordinator record skipped partition=numbers offset=2" in caplog.text


async def test_records_of_transactions_are_replayed_in_their_place() -> None:
    class WithTransactions(MemoryLog):
        def batches(self) -> Any:
            yield LoadedBatch([(0, b"a", b"1")])
            yield LoadedBatch([(1, b"a", b"2")], producer_id=7)
            yield LoadedBatch((), producer_id=7, end_transaction=True)
            yield LoadedBatch([(3, b"a", b"3"), (4, None, b"no key")])
            yield LoadedBatch((), producer_id=8, end_transaction=False)

    async with hosted(WithTransactions()) as host:
        assert host.core.replayed == [(("a", 1), 0, -1), (("a", 2), 1, 7), (("a", 3), 3, -1)]
        assert host.core.ended == [(7, True), (8, False)]


async def test_only_the_latest_record_of_a_key_is_replayed_in_the_order_of_the_latest() -> None:
    log = MemoryLog()
    log.append([(b"a", b"1"), (b"b", b"2")], 0)
    log.append([(b"a", b"3")], 0)
    async with hosted(log) as host:
        assert host.core.replayed == [(("b", 2), 1, -1), (("a", 3), 2, -1)]


async def test_loading_a_long_log_lets_others_run() -> None:
    log = MemoryLog()
    for number in range(100):
        log.append([(b"%d" % (number * 100 + i), b"1") for i in range(100)], 0)
    host = CoreHost(Numbers(), log, name="numbers")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while host.state is HostState.LOADING:
            turns += 1
            await asyncio.sleep(0)

    assert (await asyncio.gather(host.load(), others()))[0] == 10_000
    assert turns >= 4
    host.unload()


async def test_the_nearest_deadline_is_armed_and_reached() -> None:
    async with hosted(MemoryLog()) as host:
        await host.execute(host.core.decide_expire_in, 60_000)
        await host.execute(host.core.decide_expire_in, 5)
        await eventually(lambda: host.core.expired, "the deadline is reached")

"""Runs one core on one partition: decide, append, replay, and answer when committed.

Everything happens on the event loop. Deciding, appending and replaying are one step without an await in between, so a
core never sees its own decision half done. No reply, not even to a read, leaves before all that was appended before
it is committed: what a caller has seen cannot be undone by a failover.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from tidelog.coordination.core import CoordinatorCore
from tidelog.coordination.decision import Decision, Moment, Release
from tidelog.coordination.log import CoordinatorLog, LoadedBatch, Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.coordination")

C = TypeVar("C", bound=CoordinatorCore)
Q = TypeVar("Q")
R = TypeVar("R")

READ_BETWEEN_PAUSES = 5000
REPLAYED_BETWEEN_PAUSES = 1000
"""Records read, and records replayed, before other work on the loop gets its turn: some ten milliseconds."""

_AS_COORDINATOR_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error code for clients of the coordinator when the log refuses a write: codes that its protocol knows."""


class HostState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class _Clock:
    __slots__ = ("_at_s", "_loop", "_moment", "wall_clock_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_clock_ms: Callable[[], int]) -> None:
        self._loop = loop
        self.wall_clock_ms = wall_clock_ms
        self._at_s = -1.0
        self._moment = Moment(0, 0)

    def now(self) -> Moment:
        """The same for all that comes in one turn of a loop that reads its clock once per turn."""
        at_s = self._loop.time()
        if at_s != self._at_s:
            self._at_s = at_s
            self._moment = Moment(int(at_s * 1000), self.wall_clock_ms())
        return self._moment


class CoreHost(Generic[C]):
    def __init__(self, core: C, log: CoordinatorLog, *, name: str, commit_timeout_ms: int = 5000) -> None:
        self.core = core
        self.state = HostState.LOADING
        self._log = log
        self._name = name
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._end_offset = log.end_offset
        self._parked: dict[int, asyncio.Future[Any]] = {}
        """Parked requests, by the token that the core keeps."""
        self._answering = BackgroundTasks()
        """Answers that only wait for their commit."""
        self._next_token = 0
        self._held_back: deque[tuple[int, Sequence[Release]]] = deque()
        """Replies whose records are not committed yet, with the offset that must be; ascending."""
        self._awaiting_commit: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._clock = _Clock(self._loop, log.wall_clock_ms)
        log.watch(self._release_committed, self.unload)

    @property
    def is_committed(self) -> bool:
        """Whether all that was appended so far is committed."""
        return self._log.high_watermark >= self._end_offset

    @property
    def awaiting_commit_count(self) -> int:
        """Requests that are answered once their records are committed."""
        return len(self._awaiting_commit)

    # -- requests ----------------------------------------------------------------------------------------------------

    def submit(self, decide: Callable[[Q, Moment], Decision[R]], request: Q) -> tuple[R, Awaitable[None] | None]:
        """Decides `request`; the reply may be given when the second part is done, at once if that is None.

        For frequent requests: where records are committed at once, as on a single node, it needs neither a coroutine
        nor a turn of the loop.
        """
        now = self.begin()
        return self.carry_out(decide(request, now), now)

    def begin(self) -> Moment:
        """For `carry_out`: what the core decides at this moment, in the same step, will be carried out."""
        self.check_active()
        return self._clock.now()

    def carry_out(self, decision: Decision[R], now: Moment) -> tuple[R, Awaitable[None] | None]:
        """As `submit`, for a decision that the caller had the core make since it called `begin`."""
        self._perform(decision, now)
        if self._log.high_watermark >= self._end_offset:
            return decision.reply, None
        return decision.reply, self._committed(self._end_offset)

    async def execute(self, decide: Callable[[Q, Moment], Decision[R]], request: Q) -> R:
        """Decides `request` and returns the reply once everything it rests on is committed."""
        reply, commit = self.submit(decide, request)
        if commit is not None:
            await commit
        return reply

    def submit_or_park(
        self, decide: Callable[[Q, int, Moment], Decision[R | None]], request: Q
    ) -> tuple[R, None] | tuple[None, asyncio.Future[R]]:
        """The same for a request whose reply may have to wait for others: the core keeps its token.

        Either the reply or what will have it. A future and no coroutine: all members of a large group wait at once, and
        a task for each would cost more than its answer.
        """
        self.check_active()
        self._next_token = token = self._next_token + 1
        now = self._clock.now()
        decision = decide(request, token, now)
        self._perform(decision, now)
        reply = decision.reply
        if reply is None:
            for released, released_reply in decision.released:
                if released == token:
                    reply = released_reply
                    break
            else:
                parked: asyncio.Future[R] = self._loop.create_future()
                self._parked[token] = parked
                return None, parked
        if self._log.high_watermark >= self._end_offset:
            return cast(R, reply), None
        answer = self._await_commit(cast(R, reply), self._committed(self._end_offset))
        return None, self._answering.start(answer, "answer after a commit", is_awaited=True)

    async def _await_commit(self, reply: R, commit: Awaitable[None]) -> R:
        await commit
        return reply

    def perform(self, decide: Callable[[Q, Moment], Decision[R]], request: Q) -> R:
        """Decides `request` without waiting for the commit: for work that no client waits for."""
        self.check_active()
        now = self._clock.now()
        decision = decide(request, now)
        self._perform(decision, now)
        return decision.reply

    def end_transaction(self, marker: Marker) -> Awaitable[None] | None:
        """Writes the marker and settles what its producer had written here; done when the result is, None for at once.

        Raises BrokerError, with the log's own code, when it could not be written.
        """
        self.check_active()
        self._end_offset = self._log.append_marker(marker, self._clock.wall_clock_ms())
        self.core.replay_end_transaction(marker.producer_id, marker.commit)
        if self._log.high_watermark >= self._end_offset:
            return None
        return self._committed(self._end_offset)

    def check_active(self) -> None:
        """Raises BrokerError unless the core may be asked."""
        if self.state is HostState.LOADING:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is HostState.CLOSED:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _perform(self, decision: Decision[Any], now: Moment) -> None:
        records = decision.records
        if records:
            try:
                producer_id, producer_epoch = decision.producer
                encoded = self.core.encode_records(records)
                end_offset = self._log.append(encoded, now.wall_ms, producer_id, producer_epoch)
            except BrokerError as error:
                self._append_failed(decision, error, now)
            else:
                self._end_offset = end_offset
                self.core.replay_records(records, end_offset - len(records), producer_id)
        if decision.released:
            self._held_back.append((self._end_offset, decision.released))
            self._release_committed()
        self._arm()

    def _append_failed(self, decision: Decision[Any], error: BrokerError, now: Moment) -> None:
        code = _AS_COORDINATOR_ERROR.get(error.code, error.code)
        logger.warning_limited(
            "coordinator write failed",
            limit_by=("partition",),
            partition=self._name,
            records=len(decision.records),
            error=error.message,
        )
        decision.records.clear()
        if not decision.failures:
            self._arm()
            raise BrokerError(code, error.message) from error
        for put_right in decision.failures:
            put_right(decision, code, now)
        assert not decision.records, "what follows a failed append must not need another one"

    def _release_committed(self) -> None:
        high_watermark = self._log.high_watermark
        while self._held_back and self._held_back[0][0] <= high_watermark:
            for token, reply in self._held_back.popleft()[1]:
                parked = self._parked.pop(token, None)
                # The caller may have gone meanwhile; the core notices when its requests stay away.
                if parked is not None and not parked.done():
                    parked.set_result(reply)
        while self._awaiting_commit and self._awaiting_commit[0][0] <= high_watermark:
            waiter = self._awaiting_commit.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)

    def _committed(self, offset: int) -> Awaitable[None]:
        """Registered at once and not when it is awaited: the commit may come in between."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._awaiting_commit.append((offset, waiter))
        return self._in_time(waiter)

    async def _in_time(self, waiter: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._commit_timeout_s):
                await waiter
        except TimeoutError:
            # The records may still be committed later; the client retries.
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The write was not committed in time.") from None
        finally:
            # All have the same timeout, so the first gives up first; without this they would pile up while no commit
            # comes.
            while self._awaiting_commit and self._awaiting_commit[0][1].done():
                self._awaiting_commit.popleft()

    # -- time --------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline_ms = self.core.deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._deadline_reached)

    def _deadline_reached(self) -> None:
        self._timer = None
        if self.state is not HostState.ACTIVE:
            return
        try:
            now = self._clock.now()
            self._perform(self.core.decide_deadlines(now), now)
        except BrokerError:
            # Logged where it failed. Only the periodic clean-up writes without a caller, and it runs again.
            self._arm()

    # -- loading and unloading ---------------------------------------------------------------------------------------

    async def load(self) -> int:
        """Replays the log from its start and begins to serve; returns the number of records read.

        Internal topics are compacted, so only the latest record of a key can matter: earlier ones are not even
        decoded. Records of transactions wait for their markers and are replayed in their place.
        """
        count = since_pause = 0
        latest: dict[bytes, tuple[int, bytes | None]] = {}
        for batch in self._log.batches():
            if self.state is not HostState.LOADING:
                return count
            if batch.producer_id == NO_PRODUCER_ID and batch.end_transaction is None:
                for offset, key, value in batch.records:
                    if key is not None:
                        # Taken out first: the order is that of the latest records.
                        latest.pop(key, None)
                        latest[key] = (offset, value)
            else:
                await self._replay_latest(latest)
                self._replay_transactional(batch)
            count += len(batch.records)
            since_pause += len(batch.records)
            if since_pause >= READ_BETWEEN_PAUSES:
                since_pause = 0
                await asyncio.sleep(0)
        await self._replay_latest(latest)
        if self.state is HostState.LOADING:
            self.activate()
        return count

    def activate(self) -> None:
        """Everything the log had is replayed: serve."""
        self.state = HostState.ACTIVE
        now = self._clock.now()
        self._perform(self.core.decide_loaded(now), now)

    async def _replay_latest(self, latest: dict[bytes, tuple[int, bytes | None]]) -> None:
        for count, (key, (offset, value)) in enumerate(latest.items(), 1):
            self._replay_loaded(offset, key, value, NO_PRODUCER_ID)
            if count % REPLAYED_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
        latest.clear()

    def _replay_transactional(self, batch: LoadedBatch) -> None:
        if batch.end_transaction is not None:
            self.core.replay_end_transaction(batch.producer_id, batch.end_transaction)
            return
        for offset, key, value in batch.records:
            if key is not None:
                self._replay_loaded(offset, key, value, batch.producer_id)

    def _replay_loaded(self, offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
        try:
            record = self.core.decode_record(key, value)
        except ValueError as error:
            # The checksum is right, so the batch was written like this: by a client, not by a coordinator.
            logger.warning_limited("coordinator record skipped", partition=self._name, offset=offset, error=str(error))
            return
        if record is None:
            logger.debug("coordinator record of an unknown kind", partition=self._name, offset=offset)
            return
        self.core.replay(record, offset, producer_id)

    def unload(self) -> None:
        """This node stops being the coordinator: every waiting caller is sent to the new one."""
        if self.state is HostState.CLOSED:
            return
        self.state = HostState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
        for token, reply in self.core.decide_unloaded().released:
            parked = self._parked.get(token)
            if parked is not None and not parked.done():
                parked.set_result(reply)
        # Replies of which the records were appended but not committed: they may never be.
        self._held_back.clear()
        gone = BrokerError(ErrorCode.NOT_COORDINATOR)
        for waiter in [*self._parked.values(), *(waiter for _, waiter in self._awaiting_commit)]:
            if not waiter.done():
                waiter.set_exception(gone)
        self._parked.clear()
        self._awaiting_commit.clear()
        self._log.close()

"""The transaction coordinator of this node: hosts the shards, hands out producer ids, sees every outcome through.

An outcome is first written to the transaction log (prepared), and from then on it stands: markers go to every
partition, as often as it takes, and only then is the next transaction of that id let in. On a node alone all of it
happens before the answer to EndTxn; where something has to wait, the answer does not, and a task goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.coordination.host import CoreHost, HostState
from tidelog.coordination.partitioning import TRANSACTIONS_TOPIC
from tidelog.coordination.shards import OpenLog, Shards
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger
from tidelog.transactions.completion import Completion
from tidelog.transactions.core.messages import AddPartitions, End, Ended, Filters, Init, Initialised, Listed
from tidelog.transactions.core.metadata import NO_TIMESTAMP, TransactionMetadata
from tidelog.transactions.core.settings import IDS_PER_SWEEP_MAX, TransactionSettings
from tidelog.transactions.core.shard import TransactionShard
from tidelog.transactions.core.state import TransactionState
from tidelog.transactions.markers import MarkerWriter

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.delta import MetadataDelta
    from tidelog.metadata.image import MetadataImage

logger = get_logger("tidelog.transactions")

Shard = CoreHost[TransactionShard]
SETTLE_SECONDS_MAX = 0.5
"""How long a request waits for the outcome of the transaction before it; then CONCURRENT_TRANSACTIONS, and the client
asks again."""

_OPEN_STATES = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)
"""Readers of committed records wait behind these."""


class TransactionCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        image: MetadataImage,
        open_log: OpenLog,
        create_topic: Callable[[], Awaitable[object]],
        coordinator_epoch: Callable[[int], int],
        next_producer_id: Callable[[], Awaitable[int]],
        markers: MarkerWriter,
    ) -> None:
        """`coordinator_epoch` is the leader epoch of a partition of the transaction log."""
        self.settings = TransactionSettings.from_config(config)
        self._coordinator_epoch = coordinator_epoch
        self._next_producer_id = next_producer_id
        self._markers = markers
        self.shards: Shards[TransactionShard] = Shards(
            TRANSACTIONS_TOPIC,
            config.node_id,
            lambda: TransactionShard(self.settings),
            image=image,
            open_log=open_log,
            create_topic=create_topic,
            on_loaded=self._resume,
        )
        self._completing: dict[str, tuple[Shard, asyncio.Task[None]]] = {}
        """The completions under way, and the shard of each: a shard that is loaded again starts its own."""
        self._tasks = BackgroundTasks()

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to load every shard this node leads; returns at once."""
        self.shards.start()
        self._tasks.start(self._every(self.settings.abort_interval_ms, self.abort_timed_out), "transaction timeouts")
        self._tasks.start(self._every(self.settings.expiry_interval_ms, self.expire_ids), "transactional id expiry")

    async def stop(self) -> None:
        await self._tasks.close()
        await self.shards.stop()

    async def loaded(self) -> None:
        await self.shards.loaded()

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Subscribed after the partitions, which have by then what the image says."""
        self.shards.metadata_changed(image, delta)

    def _resume(self, partition: int, shard: Shard) -> None:
        """A shard was loaded: outcomes that were decided before a crash are seen through."""
        for transactional_id in shard.core.prepared_ids():
            self._complete(partition, shard, transactional_id, is_committed=False)

    async def partition_of(self, transactional_id: str) -> int:
        """The partition of the transaction log that holds the id; creates the topic for the first id ever."""
        return await self.shards.partition_of(transactional_id)

    # -- producers ---------------------------------------------------------------------------------------------------

    async def new_producer_id(self) -> int:
        return await self._next_producer_id()

    async def init(self, request: Init) -> Initialised:
        partition, shard = self.shards.find(request.transactional_id)
        reply: Initialised = await self._decide_with_id(shard, shard.core.decide_init, request)
        if reply.prepared:
            self._complete(partition, shard, request.transactional_id)
        if reply.error is ErrorCode.CONCURRENT_TRANSACTIONS and await self._settled(request.transactional_id):
            reply = await self._decide_with_id(shard, shard.core.decide_init, request)
        return reply

    async def _decide_with_id(self, shard: Shard, decide: Any, request: Any) -> Any:
        """Decides, a second time with a fresh producer id if the first says it takes one; waits for the commit."""
        reply, commit = shard.submit(decide, request)
        if reply.needs_producer_id:
            if commit is not None:
                await commit
            fresh = await self._next_producer_id()
            reply, commit = shard.submit(decide, request._replace(fresh_producer_id=fresh))
        if commit is not None:
            try:
                await commit
            except BrokerError:
                if reply.prepared:
                    # The outcome may still be committed, and then its markers have to be written.
                    partition, _ = self.shards.find(request.transactional_id)
                    self._complete(partition, shard, request.transactional_id, is_committed=False)
                raise
        return reply

    # -- partitions --------------------------------------------------------------------------------------------------

    async def add_partitions(self, request: AddPartitions) -> ErrorCode:
        _, shard = self.shards.find(request.transactional_id)
        error = await shard.execute(shard.core.decide_add_partitions, request)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and await self._settled(request.transactional_id):
            error = await shard.execute(shard.core.decide_add_partitions, request)
        return error

    def submit_partitions(self, request: AddPartitions) -> tuple[ErrorCode, Awaitable[None] | None]:
        """The same as it stands now, and what to wait for before acting on it; None for nothing."""
        _, shard = self.shards.find(request.transactional_id)
        return shard.submit(shard.core.decide_add_partitions, request)

    def is_in_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> bool:
        """The quick yes to what `verify_partitions` answers in full; asked for every batch of a transaction."""
        try:
            _, shard = self.shards.find(transactional_id)
        except BrokerError:
            return False
        # What waits for its commit is no yes: the write must not be there before the transaction that holds it.
        metadata = shard.core.transactions.get(transactional_id)
        return (
            metadata is not None
            and shard.state is HostState.ACTIVE
            and shard.is_committed
            and metadata.state is TransactionState.ONGOING
            and metadata.producer_epoch == producer_epoch
            and metadata.producer_id == producer_id
            and partition in metadata.partitions
        )

    def verify_partitions(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether the producer may write to the partitions in its transaction, by what is decided now."""
        _, shard = self.shards.find(request.transactional_id)
        shard.check_active()
        return shard.core.verify_partitions(request)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def end(self, request: End) -> Ended:
        partition, shard = self.shards.find(request.transactional_id)
        reply: Ended = await self._decide_with_id(shard, shard.core.decide_end, request)
        if reply.prepared:
            self._complete(partition, shard, request.transactional_id)
        return reply

    def _complete(self, partition: int, shard: Shard, transactional_id: str, *, is_committed: bool = True) -> None:
        """Sees a prepared outcome through: at once where nothing has to wait, otherwise in a task."""
        if shard.state is not HostState.ACTIVE:
            # Another node coordinates by now, and has found the outcome in the log.
            return
        running = self._completing.get(transactional_id)
        if running is not None and not running[1].done():
            if running[0] is shard:
                return
            running[1].cancel()
        completion = Completion(
            shard,
            transactional_id,
            self._markers,
            coordinator_epoch=self._coordinator_epoch(partition),
            is_committed=is_committed,
        )
        if completion.try_at_once():
            return
        # `_completed` logs a fault together with the transactional id.
        task = self._tasks.start(completion.run(), "transaction completion", is_awaited=True)
        self._completing[transactional_id] = (shard, task)
        task.add_done_callback(partial(self._completed, transactional_id))

    def _completed(self, transactional_id: str, task: asyncio.Task[None]) -> None:
        if self._completing.get(transactional_id, (None, None))[1] is task:
            del self._completing[transactional_id]
        if not task.cancelled() and task.exception() is not None:
            logger.error("transaction not completed", transactional_id=transactional_id, error=repr(task.exception()))

    async def _settled(self, transactional_id: str) -> bool:
        """Waits a little for the outcome of the transaction before; False when it takes longer."""
        _, task = self._completing.get(transactional_id, (None, None))
        if task is None:
            return True
        await asyncio.wait({task}, timeout=SETTLE_SECONDS_MAX)
        return task.done()

    # -- time --------------------------------------------------------------------------------------------------------

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except Exception:
                logger.exception_limited(
                    "a round of the transaction coordinator failed", limit_by=("work",), work=work.__name__
                )

    async def abort_timed_out(self) -> None:
        for partition, shard in self.shards.active():
            await self._sweep(shard.core.ongoing_ids(), partial(self._abort_some, partition, shard))

    async def _abort_some(self, partition: int, shard: Shard, ids: Sequence[str]) -> int:
        swept, commit = shard.submit(shard.core.decide_abort_timed_out, ids)
        is_committed = False
        try:
            if commit is not None:
                await commit
            is_committed = True
        finally:
            # An outcome that was not committed in time may still be, and then its markers have to be written.
            for transactional_id in swept.ended:
                logger.info_limited("transaction timed out", transactional_id=transactional_id)
                self._complete(partition, shard, transactional_id, is_committed=is_committed)
        return swept.looked_at

    async def expire_ids(self) -> None:
        for _, shard in self.shards.active():
            await self._sweep(list(shard.core.transactions), partial(self._expire_some, shard))

    async def _expire_some(self, shard: Shard, ids: Sequence[str]) -> int:
        return (await shard.execute(shard.core.decide_expire_ids, ids)).looked_at

    async def _sweep(self, ids: Sequence[str], look: Callable[[Sequence[str]], Awaitable[int]]) -> None:
        """All of them in portions; a shard that is given up or cannot write is left to the next round."""
        done = 0
        with suppress(BrokerError):
            while done < len(ids):
                done += await look(ids[done : done + IDS_PER_SWEEP_MAX])
                await asyncio.sleep(0)

    # -- administration ----------------------------------------------------------------------------------------------

    async def describe(self, transactional_id: str) -> TransactionMetadata | None:
        _, shard = self.shards.find(transactional_id)
        [described] = await shard.execute(shard.core.describe, (transactional_id,))
        return described

    async def list_transactions(self, filters: Filters) -> Sequence[Listed]:
        if self.shards.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        listed: list[Listed] = []
        for _, shard in self.shards.active():
            found = await shard.execute(shard.core.list_transactions, filters)
            listed += found
        return listed

    def count_states(self) -> dict[str, int]:
        """How many transactional ids of this node are in each state, for metrics."""
        counts: dict[str, int] = {}
        for _, shard in self.shards.active():
            for metadata in shard.core.transactions.values():
                counts[metadata.state.value] = counts.get(metadata.state.value, 0) + 1
        return counts

    def oldest_start_ms(self) -> int | None:
        """When the oldest of the transactions began that this node coordinates and that are not over, for metrics."""
        starts = (
            metadata.start_timestamp_ms
            for _, shard in self.shards.active()
            for metadata in shard.core.transactions.values()
            if metadata.state in _OPEN_STATES
        )
        return min((start_ms for start_ms in starts if start_ms != NO_TIMESTAMP), default=None)

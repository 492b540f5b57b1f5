"""One partition replica on this node: its log, its role, and those who wait for it.

All methods run on the node's event loop, which owns the partition; there are no locks. Durability: after `append`
the bytes are in the page cache (they survive kill -9 of this process); with `tidelog.flush=ack` the high watermark,
and with it every acks=all reply and every reader, follows only after fsync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.config.topic import TopicConfig
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.flushing import Flushing, TimedExecutor
from tidelog.partitions.rules import produce_rules
from tidelog.records.batch import decode_header
from tidelog.records.validation import prepare_produced
from tidelog.storage.log import AppendResult, Log
from tidelog.storage.region import LogRegion

if TYPE_CHECKING:
    from tidelog.partitions.delayed import DelayedFetch
    from tidelog.telemetry.metrics import TopicMetrics


class CommitWaiter(Protocol):
    """Someone who wrote to a partition: a produce with acks=all, or the host of a coordinator."""

    def partition_committed(self, partition: Partition, /) -> None:
        """The high watermark has reached the offset waited for."""

    def partition_gone(self, partition: Partition, /) -> None:
        """It never will: the partition was deleted, or its disk failed."""


class Partition:
    __slots__ = (
        "_config",
        "_executor",
        "_flushing",
        "_leader",
        "_rules",
        "commit_waiters",
        "failure",
        "fetch_waiters",
        "index",
        "is_internal",
        "log",
        "metrics",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        *,
        topic: str,
        index: int,
        topic_id: bytes,
        log: Log,
        leader: LeaderState,
        config: TopicConfig,
        metrics: TopicMetrics,
        executor: TimedExecutor,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.is_internal = topic in INTERNAL_TOPICS
        self.log = log
        self.metrics = metrics
        self.failure: BrokerError | None = None
        """Set when the disk under this partition failed: it takes no more writes until the node is restarted."""
        self.fetch_waiters: set[DelayedFetch] = set()
        self.commit_waiters: list[tuple[int, CommitWaiter]] = []
        """Offset the high watermark must reach, and who waits for it; ascending, because appends are."""
        self._leader = leader
        self._executor = executor
        self._flushing: Flushing | None = None
        self.config = config

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._rules = produce_rules(config)
        self.log.update_config(config)
        if self._flushing is not None:
            self._flushing.stop()
        self._flushing = Flushing(self, config, self._executor) if Flushing.is_needed(config) else None

    @property
    def leader(self) -> LeaderState:
        return self._leader

    def become_leader(self, leader: LeaderState) -> None:
        """A new leader epoch or another in-sync set; what waits for the high watermark goes on waiting."""
        self._leader = leader
        self._high_watermark_moved()

    @property
    def leader_epoch(self) -> int:
        return self._leader.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._leader.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self._leader.high_watermark)

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | bytes | None,
        *,
        acks: int,
        api_version: int,
        now_ms: int,
    ) -> AppendResult:
        """Checks a produced batch and appends it. Raises BrokerError with the code the producer is to see.

        Whether a transactional batch is in a transaction is asked before, of the transaction coordinator.
        """
        if self.failure is not None:
            raise self.failure
        leader = self._leader
        if acks == -1 and not leader.has_enough_in_sync(self._config.min_insync_replicas):
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        validated, header = prepare_produced(records, self._rules, produce_version=api_version, now_ms=now_ms)
        result = self.log.append_as_leader(validated, header, leader.leader_epoch, now_ms)
        if not result.duplicate:
            metrics = self.metrics
            metrics.records_in += header.record_count
            metrics.batches_in += 1
            metrics.bytes_in += len(validated)
        self.appended(now_ms)
        return result

    def append_own(self, batch: bytes, now_ms: int) -> AppendResult:
        """Appends a batch this node built itself: records of a coordinator, transaction markers."""
        if self.failure is not None:
            raise self.failure
        result = self.log.append_as_leader(batch, decode_header(batch), self._leader.leader_epoch, now_ms)
        self.appended(now_ms)
        return result

    def appended(self, now_ms: int) -> None:
        """The log has grown: move the high watermark, at once or when the flush settings allow it."""
        if self._flushing is not None:
            self._flushing.appended(now_ms)
        else:
            self.local_end_reached(self.log.log_end_offset)

    def local_end_reached(self, end_offset: int) -> None:
        """This replica counts as holding everything below `end_offset`: called after append, or after fsync."""
        if self._leader.replica_reached(self._leader.node_id, end_offset):
            self._high_watermark_moved()

    def _high_watermark_moved(self) -> None:
        if self.commit_waiters:
            high_watermark = self._leader.high_watermark
            ready = [waiter for offset, waiter in self.commit_waiters if offset <= high_watermark]
            self.commit_waiters = [wait for wait in self.commit_waiters if wait[0] > high_watermark]
            for waiter in ready:
                waiter.partition_committed(self)
        for fetch in self.fetch_waiters:
            fetch.wake()

    def fail(self, error: BrokerError) -> None:
        """The disk failed in a way that cannot be undone (an fsync): nothing more is acknowledged here."""
        self.failure = error
        self._release_waiters()

    def retire(self) -> None:
        """The partition leaves this node: whoever waits is answered now."""
        self.failure = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._release_waiters()

    def _release_waiters(self) -> None:
        if self._flushing is not None:
            self._flushing.stop()
        waiting, self.commit_waiters = self.commit_waiters, []
        for _, waiter in waiting:
            waiter.partition_gone(self)
        for fetch in list(self.fetch_waiters):
            fetch.wake()

    # -- reading ---------------------------------------------------------------------------------------------------

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fences a client whose idea of the leader epoch differs from this leader's (-1: it has none)."""
        if current_leader_epoch == -1 or current_leader_epoch == self._leader.leader_epoch:
            return
        if current_leader_epoch < self._leader.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> LogRegion | None:
        """The bytes from `offset` on, all of them below `upper_offset`; None when there is nothing yet."""
        log = self.log
        if offset == upper_offset and offset >= log.log_start_offset:
            return None
        if not log.log_start_offset <= offset <= upper_offset:
            if offset > log.log_end_offset or offset < log.log_start_offset:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            # Between the high watermark and the end of the log: it exists, but is not committed yet.
            return None
        if max_bytes <= 0 and not min_one_batch:
            return None
        return log.read(offset, max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch)

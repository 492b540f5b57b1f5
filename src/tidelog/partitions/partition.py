"""One partition replica on this node: its log, its role, and the produces and fetches that wait for it.

All methods run on the node's event loop, which owns the partition; there are no locks. Durability: after `append`
the bytes are in the page cache (they survive kill -9 of this process); with `tidelog.flush=ack` the high watermark,
and with it every acks=all reply and every reader, follows only after fsync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidelog.config.topic import TopicConfig
from tidelog.controller.core.alter_partition import IsrOutcome
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.core.follower import FollowerState, truncation_offset
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.core.replica import ReplicaState
from tidelog.partitions.core.throttle import ReplicationThrottle
from tidelog.partitions.flushing import Flushing, TimedExecutor
from tidelog.partitions.rules import produce_rules
from tidelog.partitions.waiting_fetches import WaitingFetches
from tidelog.records.batch import decode_header
from tidelog.records.validation import prepare_produced
from tidelog.storage.log import AppendResult, Log
from tidelog.storage.region import LogRegion

if TYPE_CHECKING:
    from tidelog.codec.buffers import Buffer
    from tidelog.telemetry.metrics import TopicMetrics


class CommitWaiter(Protocol):
    """The writer of records that are not committed yet: a produce with acks=all, or the host of a coordinator."""

    def partition_committed(self, partition: Partition, /) -> None:
        """The high watermark has reached the offset waited for."""

    def partition_gone(self, partition: Partition, error: BrokerError, /) -> None:
        """This node will not see that offset committed: the partition was deleted, its disk failed, or another node
        leads it now."""

    def gives_up_short_of_replicas(self, partition: Partition, /) -> bool:
        """Too few replicas are in sync for anything to be committed now; whether that ends the wait."""


class ReplicaShell(Protocol):
    """Does what the roles of partitions ask of the network; where there are no other nodes, nothing."""

    def role_changed(self, partition: Partition, /) -> None:
        """The partition has begun a new leader epoch on this node."""

    def partition_removed(self, partition: Partition, /) -> None:
        """This node holds the partition no more."""

    def in_sync_proposed(self, partition: Partition, leader: LeaderState, in_sync: frozenset[int], /) -> None:
        """The leader wants another in-sync set."""

    def follower_synced(self, partition: Partition, /) -> None:
        """Fetched records are on disk, or never will be (`failure`): other partitions need not wait for this one."""


class Partition:
    __slots__ = (
        "_config",
        "_executor",
        "_flushing",
        "_leader",
        "_report_waiters",
        "_role",
        "_rules",
        "_shell",
        "clock_ms",
        "commit_waiters",
        "failure",
        "fetch_waiters",
        "follower_throttle",
        "follower_waiters",
        "has_followers",
        "index",
        "is_internal",
        "leader_throttle",
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
        role: ReplicaState,
        config: TopicConfig,
        metrics: TopicMetrics,
        executor: TimedExecutor,
        shell: ReplicaShell,
        clock_ms: Callable[[], int],
    ) -> None:
        """`clock_ms` never goes back."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.is_internal = topic in INTERNAL_TOPICS
        self.log = log
        self.metrics = metrics
        self.failure: BrokerError | None = None
        """Set when the disk under this partition failed: it takes no more writes until the node is restarted."""
        self.fetch_waiters = WaitingFetches()
        """Consumers that wait for more to be committed."""
        self.follower_waiters = WaitingFetches()
        """Replicas that wait for more to be written."""
        self.leader_throttle: ReplicationThrottle | None = None
        """What slows down replicas that are not in sync when they fetch from here; None where the topic names none."""
        self.follower_throttle: ReplicationThrottle | None = None
        """The same for what this node fetches for the partition."""
        self.commit_waiters: list[tuple[int, CommitWaiter]] = []
        """The offset that the high watermark must reach, and its waiter; ascending, because appends are."""
        self._report_waiters: list[Callable[[], None]] = []
        """Called when a replica has fetched, nodes have come or gone, or the role has changed."""
        self._role: ReplicaState = role
        self._leader: LeaderState | None = role if isinstance(role, LeaderState) else None
        """The role once more, while it is the leader's."""
        self.has_followers = self._leader is None or len(self._leader.replicas) > 1
        """Whether there is more than one replica."""
        self._shell = shell
        self.clock_ms = clock_ms
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
        self._maybe_sync()
        if self._leader is not None and self._leader.min_in_sync_changed(config.min_insync_replicas, self.clock_ms()):
            self._high_watermark_moved()

    # -- the role --------------------------------------------------------------------------------------------------

    @property
    def role(self) -> ReplicaState:
        return self._role

    @property
    def leader(self) -> LeaderState:
        """What this node knows as the leader; BrokerError when it is not."""
        if self._leader is None:
            raise self._no_leader()
        return self._leader

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def leader_epoch(self) -> int:
        return self._role.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._role.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.reader.last_stable_offset(self._role.high_watermark)

    def _no_leader(self) -> BrokerError:
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def change_role(self, role: ReplicaState) -> None:
        """A new leader epoch."""
        self._role = role
        self._leader = role if isinstance(role, LeaderState) else None
        self.has_followers = self._leader is None or len(self._leader.replicas) > 1
        self.take_role()

    def take_role(self) -> None:
        """Does what beginning an epoch asks for beside knowing of it."""
        leader = self._leader
        self._maybe_sync()
        if leader is None:
            # Another node leads now, or none: for what is not committed yet this one cannot speak any more.
            self._release_waiters(self._no_leader())
            return
        if len(leader.replicas) > 1 and self.log.latest_epoch < leader.leader_epoch:
            # Followers ask where earlier epochs ended: that is where this one begins, records or not.
            self.log.writer.assign_epoch(leader.leader_epoch, self.log.log_end_offset)
        self._high_watermark_moved()
        self._wake_followers()

    def in_sync_changed(
        self, in_sync: tuple[int, ...], partition_epoch: int, replicas: tuple[int, ...], now_ms: int
    ) -> None:
        """The metadata says something new about the partition in the epoch this node leads it in."""
        leader = self.leader
        self.has_followers = len(replicas) > 1
        if self.has_followers and self.log.latest_epoch < leader.leader_epoch:
            # The first follower is on its way: see `take_role`.
            self.log.writer.assign_epoch(leader.leader_epoch, self.log.log_end_offset)
        self._in_sync_moved(leader, leader.in_sync_changed(in_sync, partition_epoch, replicas, now_ms))

    def in_sync_answered(self, leader: LeaderState, outcome: IsrOutcome, now_ms: int) -> None:
        """The controller answered what this leader proposed."""
        if leader is self._leader:
            self._in_sync_moved(leader, leader.in_sync_answered(outcome, now_ms))

    def recount(self, now_ms: int) -> None:
        """Time has passed, or nodes have come or gone: decides which replicas the high watermark waits for, and
        proposes those that leave the in-sync set."""
        leader = self._leader
        if leader is None:
            return
        if leader.recount(now_ms):
            self._high_watermark_moved()
        self._tell_reports()
        proposed = leader.propose_shrinkage(now_ms)
        if proposed is not None:
            self._shell.in_sync_proposed(self, leader, proposed)

    def _in_sync_moved(self, leader: LeaderState, has_advanced: bool) -> None:
        if has_advanced:
            self._high_watermark_moved()
        if not leader.has_enough_in_sync:
            self.commit_waiters = [wait for wait in self.commit_waiters if not wait[1].gives_up_short_of_replicas(self)]

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
        if leader is None:
            raise self._no_leader()
        if acks == -1 and not leader.has_enough_in_sync:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        validated, header = prepare_produced(records, self._rules, produce_version=api_version, now_ms=now_ms)
        result = self.log.writer.append_as_leader(validated, header, leader.leader_epoch, now_ms)
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
        result = self.log.writer.append_as_leader(batch, decode_header(batch), self.leader.leader_epoch, now_ms)
        self.appended(now_ms)
        return result

    def appended(self, now_ms: int) -> None:
        """The log has grown: move the high watermark, at once or when the flush settings allow it."""
        if self._flushing is not None:
            if self._leader is not None:
                self._leader.appended(self.log.log_end_offset)
            self._flushing.appended(now_ms)
        else:
            self.local_end_reached(self.log.log_end_offset)
        if self.follower_waiters:
            self._wake_followers()

    def local_end_reached(self, end_offset: int) -> None:
        """This replica counts as holding everything below `end_offset`: called after append, or after fsync."""
        leader = self._leader
        if leader is None:
            self._shell.follower_synced(self)
        elif leader.local_end_reached(end_offset):
            self._high_watermark_moved()

    def _high_watermark_moved(self) -> None:
        high_watermark = self._role.high_watermark
        # At once and not when the last stable offset is read: a follower never reads it.
        self.log.producer_state.high_watermark_moved(high_watermark)
        if self.commit_waiters:
            ready = [waiter for offset, waiter in self.commit_waiters if offset <= high_watermark]
            self.commit_waiters = [wait for wait in self.commit_waiters if wait[0] > high_watermark]
            for waiter in ready:
                waiter.partition_committed(self)
        for fetch in self.fetch_waiters:
            fetch.wake()

    def _wake_followers(self) -> None:
        for fetch in self.follower_waiters:
            fetch.wake()

    def fail(self, error: BrokerError) -> None:
        """The disk failed in a way that cannot be undone (an fsync): nothing more is acknowledged here."""
        self.failure = error
        self._stop_flushing()
        self._release_waiters(error)
        if self._leader is None:
            self._shell.follower_synced(self)

    def retire(self, error_code: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition leaves this node: all waiting requests are answered now."""
        self.failure = BrokerError(error_code)
        self._stop_flushing()
        self._release_waiters(self.failure)

    def _stop_flushing(self) -> None:
        if self._flushing is not None:
            self._flushing.stop()

    def when_reported(self, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when what this node knows of the other replicas, or its own role, may have changed."""
        self._report_waiters.append(wake)

    def _tell_reports(self) -> None:
        waiters, self._report_waiters = self._report_waiters, []
        for wake in waiters:
            wake()

    def _release_waiters(self, error: BrokerError) -> None:
        self._release_commit_waiters(error)
        self._tell_reports()
        for fetch in (*self.fetch_waiters, *self.follower_waiters):
            fetch.wake()

    def _release_commit_waiters(self, error: BrokerError) -> None:
        waiting, self.commit_waiters = self.commit_waiters, []
        for _, waiter in waiting:
            waiter.partition_gone(self, error)

    # -- replicating -----------------------------------------------------------------------------------------------

    def follower_fetched(
        self, node_id: int, broker_epoch: int, offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """A replica asks for what follows `offset`: it has everything below. BrokerError when it may not ask here."""
        leader = self.leader
        if leader.follower_fetched(node_id, broker_epoch, offset, log_start_offset, self.log.log_end_offset, now_ms):
            self._high_watermark_moved()
        if self._report_waiters:
            self._tell_reports()
        if len(leader.in_sync) < len(leader.replicas):
            proposed = leader.propose_growth(node_id)
            if proposed is not None:
                self._shell.in_sync_proposed(self, leader, proposed)

    @property
    def is_synced(self) -> bool:
        """Whether this replica may say that it has all of its log."""
        flushing = self._flushing
        return flushing is None or not flushing.is_before_ack or self.log.recovery_point >= self.log.log_end_offset

    def _maybe_sync(self) -> None:
        """Whatever comes of it, this replica speaks only for what it has synced: a follower fetches on after that."""
        if not self.is_synced and self._flushing is not None:
            self._flushing.appended(self.log.wall_clock_ms())

    def append_fetched(
        self, records: Buffer, follower: FollowerState, leader_high_watermark: int, leader_log_start: int
    ) -> int:
        """Appends what the leader sent, byte for byte; returns by how many offsets the log grew. BrokerError when it
        does not continue this log."""
        log = self.log
        end_before = log.log_end_offset
        log.writer.append_as_follower(records, follower.leader_epoch)
        if log.log_end_offset > end_before and self._flushing is not None:
            self._flushing.appended(log.wall_clock_ms())
        if follower.leader_answered(leader_high_watermark, log.log_end_offset):
            self._high_watermark_moved()
        if leader_log_start > log.log_start_offset:
            log.rearranger.start_at(min(leader_log_start, follower.high_watermark))
        return log.log_end_offset - end_before

    def truncate_diverging(self, follower: FollowerState, leader_epoch: int, leader_end_offset: int) -> int:
        """Cuts the log where the leader's parts from it, as far as this answer tells; returns where it ends now."""
        log = self.log
        own_epoch, own_end_offset = log.reader.end_offset_for_epoch(leader_epoch) or (-1, -1)
        log.rearranger.truncate_to(
            truncation_offset(
                leader_epoch=leader_epoch,
                leader_end_offset=leader_end_offset,
                own_epoch=own_epoch,
                own_end_offset=own_end_offset,
                log_end_offset=log.log_end_offset,
            )
        )
        follower.truncated(log.log_end_offset)
        self._maybe_sync()
        return log.log_end_offset

    def restart_at(self, follower: FollowerState, offset: int, *, keep_below: bool) -> None:
        """The leader has nothing at this log's end: cut back to `offset`, or drop all and go on from there."""
        if keep_below:
            self.log.rearranger.truncate_to(offset)
        else:
            self.log.rearranger.truncate_fully_and_start_at(offset)
            follower.high_watermark = offset
        follower.truncated(self.log.log_end_offset)
        self._maybe_sync()

    # -- reading ---------------------------------------------------------------------------------------------------

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fences a client whose idea of the leader epoch differs from this leader's (-1: it has none)."""
        if current_leader_epoch == -1 or current_leader_epoch == self._role.leader_epoch:
            return
        if current_leader_epoch < self._role.leader_epoch:
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
        return log.reader.read(offset, max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch)

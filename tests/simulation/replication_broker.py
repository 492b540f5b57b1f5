"""A simulated broker: the real partition table, partitions and logs on a real directory; network and time are the
world's. What asyncio does in a node (`partitions/replication`) is done by messages and timers here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.clock import DriftingClock
from tests.simulation.event_loop import SyncingThread
from tests.simulation.log_watch import LogWatch
from tests.simulation.replication_controller import CONTROLLER, TOPIC, TOPIC_ID
from tests.simulation.replication_observations import ReaderTold

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.core.follower import FollowerState
from tidelog.partitions.core.isr import REFUSED, SUPERSEDED
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.fetch_session import FetchTarget
from tidelog.partitions.partition import Partition
from tidelog.partitions.reading import FetchingReplica, read_for_follower
from tidelog.partitions.table import PartitionTable
from tidelog.runtime.system import System
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_flusher import PendingFlush
from tidelog.telemetry.metrics import NodeMetrics

if TYPE_CHECKING:
    from tests.simulation.replication_cluster import ReplicationCluster

HEARTBEAT_MS = 50.0
FETCH_PAUSE_MS = 5.0
FETCH_TIMEOUT_MS = 150.0
PROPOSAL_RETRY_MS = 60.0
LAG_MAX_MS = 500
NOW_MS = 1_700_000_000_000


@dataclass(slots=True)
class Mutations:
    """Ways to break replication on purpose."""

    acknowledges_early: bool = False
    """acks=all is answered after the append."""
    skips_truncation: bool = False
    """A follower does not say in which epoch its log ends, and goes on where it stands."""
    counts_any_two: bool = False
    """What any two replicas have counts as committed, whether they are in sync, behind or fenced."""
    shrinks_alone: bool = False
    """The leader waits no longer for a replica that lags, without the controller having put it out."""
    skips_syncs: bool = False
    """With `tidelog.flush=ack` a follower fetches on, and so says that it has its log, and nothing is ever synced."""
    forgets_producers: bool = False
    """A new leader does not know what producers have written."""
    tells_too_soon: bool = False
    """A new leader tells consumers where what is committed ends before it knows."""
    writes_old_epochs: bool = False
    """A leader marks some of its batches with the first epoch there was."""


class FetchAnswer(NamedTuple):
    error_code: int
    records: bytes
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: tuple[int, int] | None


class _CommitWait:
    """A produce with acks=all that waits."""

    def __init__(self, reply: Callable[[int], None]) -> None:
        self._reply = reply

    def partition_committed(self, partition: Partition, /) -> None:
        self._reply(0)

    def partition_gone(self, partition: Partition, error: BrokerError, /) -> None:
        self._reply(error.code)

    def gives_up_short_of_replicas(self, partition: Partition, /) -> bool:
        self._reply(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True


@dataclass(slots=True, eq=False)
class _Sync:
    index: int
    end_offset: int
    """Below it everything will be on the disk."""


class SimulatedBroker:
    def __init__(self, cluster: ReplicationCluster, node_id: int, path: Path, mutations: Mutations) -> None:
        self.node_id = node_id
        self.is_up = False
        self.epoch = -1
        self.table: PartitionTable | None = None
        self._cluster = cluster
        self._world = cluster.world
        self._path = path
        self._disk = SyncingThread(cluster.world, cluster.disk_faults, self._sync_begins)
        self._mutations = mutations
        self._clock = DriftingClock(self._world, 0.05)
        self._incarnation = 0
        self._disks = 0
        """How many it has had; each has an id of its own."""
        self._synced: dict[int, int] = {}
        """What the disk has of each log, whatever the node makes of its syncs: what was there after a loss of power was
        on the disk."""
        self._syncing: list[_Sync] = []
        """Under way."""
        self._applied = 0
        """Up to which image of the controller's history this node has come."""
        self._fetching: dict[int, float] = {}
        self._fetches = 0
        self._awaited: dict[int, int] = {}
        """The number of the fetch under way, per partition: an answer counts once and for none but the last, as one
        connection with correlation ids sees to."""
        self._proposals: dict[int, tuple[LeaderState, frozenset[int]]] = {}
        self._watch_of_logs = LogWatch(self._world, node_id)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_up = True
        self._incarnation += 1
        self.epoch = -1
        self._world.note(f"node {self.node_id}", "starts")
        self._beat(self._incarnation)

    def crash(self, *, loses_unsynced: bool) -> None:
        """The process ends; with the power gone too, an arbitrary end of each log goes with it."""
        self._world.note(f"node {self.node_id}", "loses power" if loses_unsynced else "crashes")
        self.is_up = False
        if self.table is not None:
            for partition in self.table:
                log = partition.log
                synced = self._synced.get(partition.index, 0)
                if loses_unsynced:
                    is_kept = self._cluster.syncs and not self._mutations.skips_syncs
                    kept = max(log.log_start_offset, synced if is_kept else 0)
                    log.rearranger.truncate_to(self._world.random.randint(kept, log.log_end_offset))
                    synced = log.log_end_offset
                self._synced[partition.index] = synced
            self._directory.close(clean=False)
        self._disk.lose_all()
        self._syncing.clear()
        self.table = None
        self.epoch = -1
        self._fetching.clear()
        self._proposals.clear()
        self._watch_of_logs = LogWatch(self._world, self.node_id)

    def lose_disk(self) -> None:
        """The next start finds an empty one in its place."""
        assert not self.is_up
        self._world.note(f"node {self.node_id}", "loses its disk")
        self._disks += 1
        self._synced.clear()
        shutil.rmtree(self._path, ignore_errors=True)

    def _after(self, delay_ms: float, callback: Callable[[int], None]) -> None:
        """A timer that dies with the process."""
        incarnation = self._incarnation

        def fire() -> None:
            if self.is_up and incarnation == self._incarnation:
                callback(incarnation)

        self._world.after(delay_ms, fire)

    def _send(self, destination: int, deliver: Callable[[], None]) -> None:
        self._cluster.network.send(self.node_id, destination, deliver)

    def _reply_from(self, source: int, incarnation: int, deliver: Callable[[], None]) -> None:
        def arrive() -> None:
            if self.is_up and incarnation == self._incarnation:
                deliver()
                self.look()

        self._cluster.network.send(source, self.node_id, arrive)

    def _beat(self, incarnation: int) -> None:
        """Register, then say regularly that one lives, and hear what is new."""
        controller = self._cluster.controller
        name = f"{self.node_id}-{incarnation}".encode().ljust(16, b".")
        disk = f"disk {self.node_id}-{self._disks}".encode().ljust(16, b".")
        epoch, offset = self.epoch, controller.history[self._applied][0].offset

        def ask() -> None:
            registered = controller.register(self.node_id, name, disk) if epoch < 0 else epoch
            if registered is None:
                return
            controller.heartbeat(self.node_id, registered, offset if epoch >= 0 else -1)
            newest = len(controller.history) - 1
            self._reply_from(CONTROLLER, incarnation, lambda: self._heard(registered, newest))

        self._send(CONTROLLER, ask)
        self._after(HEARTBEAT_MS, self._beat)

    def _heard(self, epoch: int, newest: int) -> None:
        self.epoch = epoch
        history = self._cluster.controller.history
        if self.table is None:
            if history[newest][0].offset < epoch:
                return
            self._applied = newest
            self._load(history[newest][0])
            self._after(LAG_MAX_MS / 2, self._watch)
        while self._applied < newest:
            self._applied += 1
            self.table.apply(*history[self._applied])

    def _load(self, image: MetadataImage) -> None:
        config = BrokerConfig(node_id=self.node_id, replica_lag_time_max_ms=LAG_MAX_MS)
        self._directory = LogDirectory.open(
            self._path, node_id=self.node_id, cluster_id=None, system=System(lambda: NOW_MS + self._clock.now_ms)
        )
        self.table = PartitionTable(
            config=config,
            directory=self._directory,
            metrics=NodeMetrics(),
            workers=self._disk,
            replication=self,
            clock_ms=lambda: self._clock.now_ms,
        )
        delta = MetadataDelta(image)
        delta.topics.created.update(image.topics_by_id)
        delta.brokers.changed = set(image.brokers)
        self.table.apply(image, delta)

    def _watch(self, _: int) -> None:
        assert self.table is not None
        for partition in self.table:
            partition.recount(self._clock.now_ms)
        self._directory.write_checkpoints(self.table.high_watermarks())
        self._after(LAG_MAX_MS / 2, self._watch)

    def _sync_begins(self, flush: PendingFlush) -> Callable[[], None]:
        """What is below the end of the log now is on the disk when it is done, unless it is cut before."""
        if not flush.files:
            return lambda: None
        directory = os.path.dirname(flush.files[0].path)
        sync = _Sync(int(directory.rpartition("-")[2]), flush.end_offset)
        self._syncing.append(sync)

        def done() -> None:
            self._syncing.remove(sync)
            self._synced[sync.index] = max(self._synced.get(sync.index, 0), sync.end_offset)

        return done

    def _cut(self, index: int, end_offset: int) -> None:
        self._synced[index] = min(self._synced.get(index, 0), end_offset)
        for sync in self._syncing:
            if sync.index == index:
                sync.end_offset = min(sync.end_offset, end_offset)

    # -- ReplicaShell --------------------------------------------------------------------------------------------------

    def role_changed(self, partition: Partition) -> None:
        self._world.note(f"node {self.node_id}", f"{partition} epoch {partition.leader_epoch} {type(partition.role)}")
        if self._mutations.forgets_producers and partition.is_leader:
            partition.log.producer_state.clear()
        if isinstance(partition.role, FollowerState) and partition.index not in self._fetching:
            self._fetching[partition.index] = 0.0
            self._after(FETCH_PAUSE_MS, lambda _: self._fetch(partition.index))

    def partition_removed(self, partition: Partition) -> None:
        raise AssertionError("partitions do not move here")

    def follower_synced(self, partition: Partition) -> None:
        """The next fetch, which comes soon, says so."""

    def in_sync_proposed(self, partition: Partition, leader: LeaderState, in_sync: frozenset[int]) -> None:
        self._proposals[partition.index] = (leader, in_sync)
        self._propose(partition.index)

    def _propose(self, index: int) -> None:
        partition = self.partition(index)
        leader, in_sync = self._proposals.get(index, (None, frozenset()))
        if partition is None or leader is None or partition.role is not leader or leader.pending_in_sync is not in_sync:
            self._proposals.pop(index, None)
            return
        isr = leader.with_epochs(in_sync, self.epoch)
        change = IsrChange(TOPIC_ID, index, leader.leader_epoch, leader.partition_epoch, isr)
        epoch, incarnation = self.epoch, self._incarnation

        def ask() -> None:
            outcomes = self._cluster.controller.alter_partitions(self.node_id, epoch, [change])
            if outcomes:
                self._reply_from(CONTROLLER, incarnation, lambda: self._answered(index, leader, in_sync, outcomes[0]))

        self._send(CONTROLLER, ask)
        self._after(PROPOSAL_RETRY_MS, lambda _: self._propose(index))

    def _answered(self, index: int, leader: LeaderState, in_sync: frozenset[int], outcome: IsrOutcome) -> None:
        partition = self.partition(index)
        if partition is None or partition.role is not leader or leader.pending_in_sync is not in_sync:
            return
        error = outcome.error
        if error is None or error.code in REFUSED or error.code in SUPERSEDED:
            self._proposals.pop(index, None)
            partition.in_sync_answered(leader, outcome, self._clock.now_ms)

    # -- following -----------------------------------------------------------------------------------------------------

    def _fetch(self, index: int) -> None:
        partition = self.partition(index)
        if partition is None or not isinstance(partition.role, FollowerState):
            self._fetching.pop(index, None)
            return
        role, log = partition.role, partition.log
        may_tell = partition.is_synced or self._mutations.skips_syncs
        if role.leader_id >= 0 and self._world.now_ms >= self._fetching[index] and may_tell:
            self._fetching[index] = self._world.now_ms + FETCH_TIMEOUT_MS
            last_epoch = -1 if self._mutations.skips_truncation else log.leader_epochs.latest_epoch
            target = FetchTarget(
                TOPIC_ID, index, log.log_end_offset, 2000, role.leader_epoch, last_epoch, log.log_start_offset
            )
            replica = FetchingReplica(self.node_id, self.epoch)
            leader, incarnation = self._cluster.brokers[role.leader_id], self._incarnation
            self._fetches += 1
            number = self._awaited[index] = self._fetches

            def take(answer: FetchAnswer) -> None:
                if self._awaited.get(index) == number:
                    del self._awaited[index]
                    self._take(partition, role, target, answer)

            def ask() -> None:
                answer = leader.answer_fetch(target, replica)
                if answer is not None:
                    self._reply_from(leader.node_id, incarnation, lambda: take(answer))

            self._send(role.leader_id, ask)
        self._after(FETCH_PAUSE_MS, lambda _: self._fetch(index))

    def answer_fetch(self, target: FetchTarget, replica: FetchingReplica) -> FetchAnswer | None:
        partition = self.partition(target.partition)
        if partition is None:
            return None
        answer = read_for_follower(partition, target, replica, 2000, True, self._clock.now_ms)
        self._maybe_break(partition)
        self.look()
        log = partition.log
        return FetchAnswer(
            answer.error_code,
            b"" if answer.region is None else answer.region.load(),
            answer.high_watermark,
            log.log_start_offset,
            log.log_end_offset,
            answer.diverging_epoch,
        )

    def _maybe_break(self, partition: Partition) -> None:
        """Moves the high watermark as a broken leader would."""
        if not partition.is_leader:
            return
        leader = partition.leader
        followers = leader.followers.values()
        if self._mutations.counts_any_two:
            leader.high_watermark = max(leader.high_watermark, *(follower.end_offset for follower in followers))
        elif self._mutations.shrinks_alone:
            keeping_up = [f.end_offset for f in followers if self._clock.now_ms - f.last_caught_up_ms < LAG_MAX_MS / 10]
            leader.high_watermark = max(leader.high_watermark, min(keeping_up, default=-1))
        else:
            return
        partition.recount(self._clock.now_ms)
        partition._high_watermark_moved()

    def _take(self, partition: Partition, role: FollowerState, target: FetchTarget, answer: FetchAnswer) -> None:
        if partition.role is not role or partition.log.log_end_offset != target.fetch_offset:
            return
        self._fetching[partition.index] = 0.0
        try:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                if answer.log_end_offset < partition.log.log_end_offset and not self._mutations.skips_truncation:
                    partition.restart_at(role, answer.log_end_offset, keep_below=True)
            elif answer.diverging_epoch is not None:
                end = partition.truncate_diverging(role, *answer.diverging_epoch)
                self._world.note(f"node {self.node_id}", f"{partition} cut from {target.fetch_offset} to {end}")
            elif not answer.error_code:
                partition.append_fetched(answer.records, role, answer.high_watermark, answer.log_start_offset)
        except BrokerError as error:
            self._world.note(f"node {self.node_id}", f"{partition} cannot go on: {error.message}")
        self._cut(partition.index, partition.log.log_end_offset)

    # -- clients -------------------------------------------------------------------------------------------------------

    def produce(self, index: int, batch: bytes, reply: Callable[[int, int], None]) -> None:
        """`reply` gets an error code and the base offset."""
        partition = self.partition(index)
        if partition is None:
            return
        role, leader_epoch = partition.role, partition.leader_epoch
        if self._mutations.writes_old_epochs and self._world.random.random() < 0.5:
            role.leader_epoch = 0
        try:
            result = partition.append(batch, acks=-1, api_version=11, now_ms=NOW_MS + self._clock.now_ms)
        except BrokerError as error:
            reply(error.code, -1)
            return
        finally:
            role.leader_epoch = leader_epoch
        if partition.high_watermark > result.last_offset or self._mutations.acknowledges_early:
            reply(0, result.base_offset)
        else:
            wait = _CommitWait(lambda code: reply(code, result.base_offset))
            partition.commit_waiters.append((result.last_offset + 1, wait))
        self.look()

    def tell_high_watermark(self, index: int) -> None:
        """What ListOffsets would answer."""
        partition = self.partition(index)
        if partition is None or not partition.is_leader:
            return
        if partition.leader.knows_high_watermark or self._mutations.tells_too_soon:
            self._world.observe(ReaderTold(index, partition.leader_epoch, partition.high_watermark))

    # -- looking -------------------------------------------------------------------------------------------------------

    def partition(self, index: int) -> Partition | None:
        return None if self.table is None or not self.is_up else self.table.find_partition(TOPIC, index)

    def look(self) -> None:
        self._watch_of_logs.look(self.table or ())

    def show_logs(self) -> None:
        self._watch_of_logs.show_logs(self.table or ())

    @property
    def where(self) -> list[TopicPartition]:
        return [] if self.table is None else [partition.topic_partition for partition in self.table]

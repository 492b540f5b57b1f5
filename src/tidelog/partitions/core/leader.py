"""What the leader of a partition knows about its replicas, and the high watermark that follows from it. Pure.

The high watermark is the smallest end offset among the replicas that count: everything below it survives the loss of
any of them but one. A replica reports the end of what it would still have after a crash by its own rules, so with
`tidelog.flush=ack` only what was synced. A partition of one replica is no special case.

The in-sync set changes only through the controller. While a change is under way the leader cannot know which set holds
already, so every replica of either counts (the maximal set): what is committed then is safe under both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.controller.core.alter_partition import ANY_EPOCH, InSyncReplica, IsrOutcome
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.core.isr import REFUSED
from tidelog.partitions.core.replica import ReplicaState

NO_OFFSET: Final = -1
NEVER: Final = -(1 << 62)


class Follower:
    """One other replica as its fetches show it."""

    __slots__ = (
        "broker_epoch",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int, last_caught_up_ms: int) -> None:
        self.node_id = node_id
        self.broker_epoch = ANY_EPOCH
        self.end_offset = NO_OFFSET
        """Where it fetched last: it holds everything below."""
        self.log_start_offset = NO_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        """The last moment at which it had all the leader had."""
        self.last_fetch_ms = NEVER
        self.last_fetch_leader_end = NO_OFFSET
        """Where the leader's log ended when that fetch came."""

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            # By now it has what the leader had at its last fetch: under steady load no follower is ever at the very
            # end.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms


class LeaderState(ReplicaState):
    __slots__ = (
        "_counted",
        "_lag_time_max_ms",
        "_live_brokers",
        "_local_end",
        "_min_in_sync",
        "epoch_start_offset",
        "followers",
        "has_enough_in_sync",
        "in_sync",
        "log_end_offset",
        "node_id",
        "pending_in_sync",
        "replicas",
    )

    def __init__(
        self,
        *,
        node_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        high_watermark: int,
        log_end_offset: int,
        live_brokers: Mapping[int, int],
        min_in_sync: int,
        lag_time_max_ms: int,
        now_ms: int,
        local_end_offset: int | None = None,
    ) -> None:
        """`live_brokers`: broker epoch by node id of all that are neither fenced nor stopping; followed as it changes,
        with a `recount` after each change. `now_ms` is of a clock that never goes back. `local_end_offset`: what this
        node counts as holding where that is not all of its log."""
        super().__init__(
            leader_id=node_id,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            high_watermark=min(high_watermark, log_end_offset),
        )
        self.node_id = node_id
        self.replicas = frozenset(replicas)
        self.in_sync = frozenset(in_sync) | {node_id}
        """As last confirmed by the controller; a leader is in sync with itself."""
        self.pending_in_sync: frozenset[int] | None = None
        """What the controller was asked for and has not answered yet."""
        self.epoch_start_offset = log_end_offset
        """Where the log ended when this epoch began: a replica that has not reached it may lack committed records."""
        self.log_end_offset = log_end_offset
        self.has_enough_in_sync = False
        """Whether acks=all may be taken, and anything be committed at all."""
        self._min_in_sync = min_in_sync
        self._lag_time_max_ms = lag_time_max_ms
        self.followers: dict[int, Follower] = {}
        self._live_brokers = live_brokers
        self._local_end = log_end_offset if local_end_offset is None else local_end_offset
        """What this node itself counts as holding; behind the end of the log while that is being synced."""
        self._counted: list[Follower] = []
        """Followers that the high watermark waits for."""
        self._follow(now_ms)
        self.recount(now_ms)

    def _follow(self, now_ms: int) -> None:
        """One `Follower` for each other replica; those in sync are given the time to show that they still are."""
        known = self.followers
        self.followers = {
            node_id: known.get(node_id) or Follower(node_id, now_ms if node_id in self.in_sync else NEVER)
            for node_id in self.replicas
            if node_id != self.node_id
        }

    # -- the high watermark ------------------------------------------------------------------------------------------

    @property
    def maximal_in_sync(self) -> frozenset[int]:
        pending = self.pending_in_sync
        return self.in_sync if pending is None else self.in_sync | pending

    @property
    def knows_high_watermark(self) -> bool:
        """Whether all that was committed before this epoch is known to be: until then the high watermark may be behind
        that of the last leader."""
        return self.high_watermark >= self.epoch_start_offset

    def min_in_sync_changed(self, min_in_sync: int, now_ms: int) -> bool:
        """The setting of the topic changed; returns whether the high watermark moved."""
        self._min_in_sync = min_in_sync
        return self.recount(now_ms)

    def recount(self, now_ms: int) -> bool:
        """Decides again which replicas the high watermark waits for; returns whether that moved it.

        Without the in-sync replicas a topic asks for nothing is committed; a topic cannot ask for more than it has.
        Besides those in sync, the high watermark waits for those about to join: otherwise it would run away from them,
        and they could never reach it.
        """
        self.has_enough_in_sync = len(self.in_sync) >= min(self._min_in_sync, len(self.replicas))
        maximal = self.maximal_in_sync
        self._counted = [
            follower
            for follower in self.followers.values()
            if follower.node_id in maximal
            or (self._may_join(follower) and follower.is_caught_up(self.log_end_offset, now_ms, self._lag_time_max_ms))
        ]
        return self._maybe_advance()

    def _maybe_advance(self) -> bool:
        candidate = self._local_end
        for follower in self._counted:
            if follower.end_offset < candidate:
                candidate = follower.end_offset
        if candidate <= self.high_watermark or not self.has_enough_in_sync:
            return False
        self.high_watermark = candidate
        return True

    def appended(self, log_end_offset: int) -> None:
        """The log has grown; whether this node counts as holding it is said by `local_end_reached`."""
        self.log_end_offset = log_end_offset

    def local_end_reached(self, end_offset: int) -> bool:
        """This node itself holds everything below `end_offset`; returns whether that moved the high watermark."""
        self._local_end = end_offset
        if end_offset > self.log_end_offset:
            self.log_end_offset = end_offset
        return self._maybe_advance()

    # -- followers ---------------------------------------------------------------------------------------------------

    def follower_fetched(
        self, node_id: int, broker_epoch: int, offset: int, log_start_offset: int, leader_end: int, now_ms: int
    ) -> bool:
        """A replica asks for what follows `offset`, so it holds what is below; whether that moved the high watermark.

        `leader_end` is where the log ended when the request was read. Raises BrokerError for a node without a replica.
        """
        follower = self.followers.get(node_id)
        if follower is None:
            # It may have heard of a reassignment before this leader did.
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"Node {node_id} is no replica of the partition.")
        if broker_epoch != ANY_EPOCH and broker_epoch < follower.broker_epoch:
            raise BrokerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Node {node_id} has been registered again; a newer process of it fetches already.",
            )
        follower.broker_epoch = broker_epoch
        follower.log_start_offset = log_start_offset
        follower.fetched(offset, leader_end, now_ms)
        if len(self._counted) < len(self.followers):
            return self.recount(now_ms)
        return self._maybe_advance()

    def low_watermark(self, log_start_offset: int) -> int:
        """Where the logs of all replicas that are alive have begun to start; -1 until each has said so."""
        alive = [each.log_start_offset for each in self.followers.values() if each.node_id in self._live_brokers]
        return min([log_start_offset, *alive])

    def _may_join(self, follower: Follower) -> bool:
        """Alive as the controller sees it, and the same incarnation that has been fetching."""
        live_epoch = self._live_brokers.get(follower.node_id)
        if live_epoch is None:
            return False
        return follower.broker_epoch in (live_epoch, ANY_EPOCH)

    def _has_caught_up(self, follower: Follower) -> bool:
        return follower.end_offset >= self.high_watermark and follower.end_offset >= self.epoch_start_offset

    # -- the in-sync set ---------------------------------------------------------------------------------------------

    def propose_growth(self, node_id: int) -> frozenset[int] | None:
        """The in-sync set with a replica that has just fetched, if it has caught up: to be asked for now, or None.

        Only its own fetch lets a replica in: one that was put out for its silence is still where it was.
        """
        follower = self.followers.get(node_id)
        if follower is None or self.pending_in_sync is not None or node_id in self.in_sync:
            return None
        if not self._has_caught_up(follower) or not self._may_join(follower):
            return None
        return self._propose(self.in_sync | {node_id})

    def propose_shrinkage(self, now_ms: int) -> frozenset[int] | None:
        """The in-sync set without those that have lagged too long, to be asked for now."""
        if self.pending_in_sync is not None or len(self.in_sync) == 1:
            return None
        lagging = {
            follower.node_id
            for follower in self.followers.values()
            if follower.node_id in self.in_sync
            and not follower.is_caught_up(self.log_end_offset, now_ms, self._lag_time_max_ms)
        }
        return self._propose(self.in_sync - lagging) if lagging else None

    def _propose(self, in_sync: frozenset[int]) -> frozenset[int]:
        self.pending_in_sync = in_sync
        # The proposed replicas count from now on: the controller may agree at any moment.
        self._counted = [follower for follower in self.followers.values() if follower.node_id in self.maximal_in_sync]
        return in_sync

    def with_epochs(self, in_sync: Iterable[int], own_broker_epoch: int) -> list[InSyncReplica]:
        """Each with the epoch of the incarnation that was seen: another one may have lost what this one had."""
        return [
            InSyncReplica(node_id, own_broker_epoch if node_id == self.node_id else self._epoch_of(node_id))
            for node_id in sorted(in_sync)
        ]

    def _epoch_of(self, node_id: int) -> int:
        follower = self.followers.get(node_id)
        return ANY_EPOCH if follower is None else follower.broker_epoch

    def in_sync_answered(self, outcome: IsrOutcome, now_ms: int) -> bool:
        """The controller answered a proposal; returns whether the high watermark moved.

        What was superseded stays pending, so that both sets count, until the metadata says what holds.
        """
        if outcome.error is not None and outcome.error.code in REFUSED:
            self.pending_in_sync = None
            return self.recount(now_ms)
        state = outcome.state
        if state is None or state.leader_epoch != self.leader_epoch:
            return False
        if state.partition_epoch == self.partition_epoch:
            # The in-sync set was that already, as the metadata shows.
            self.pending_in_sync = None
            return self.recount(now_ms)
        return self.in_sync_changed(state.isr, state.partition_epoch, self.replicas, now_ms)

    def in_sync_changed(
        self, in_sync: Iterable[int], partition_epoch: int, replicas: Iterable[int], now_ms: int
    ) -> bool:
        """The controller's word on the partition in this leader epoch; returns whether the high watermark moved."""
        if partition_epoch < self.partition_epoch:
            return False
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.in_sync = frozenset(in_sync) | {self.node_id}
            self.pending_in_sync = None
        # The answer to a proposal does not name the replicas; the metadata that follows it does.
        self.replicas = frozenset(replicas)
        self._follow(now_ms)
        return self.recount(now_ms)

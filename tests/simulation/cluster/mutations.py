"""Whole nodes broken on purpose, one rule at a time, where control, replication and disks meet.

Each mutation patches one function of the real code; it is undone when the block ends. Rules that lie within the
quorum's core or within replication alone are broken in `raft_mutations.py` and `replication_broker.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tidelog.controller.core import alter_partition
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.partition_change import PartitionChange
from tidelog.controller.quorum_controller import QuorumController
from tidelog.coordination.host import CoreHost
from tidelog.groups.core import offsets
from tidelog.groups.core.consumer import heartbeats
from tidelog.groups.core.consumer.groups import ConsumerGroups
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.node.disk_room import DiskRoom
from tidelog.partitions import reading
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.partition import Partition
from tidelog.partitions.producing import ProduceResponse, Producing
from tidelog.partitions.table import PartitionTable
from tidelog.raft import store
from tidelog.raft.core.effects import HardState
from tidelog.raft.quorum import Quorum
from tidelog.raft.quorum_state import QUORUM_STATE_FILE, encode_quorum_state
from tidelog.runtime.disk import Disk
from tidelog.storage.files import write_whole
from tidelog.storage.log_flusher import PendingFlush
from tidelog.storage.producer_state import ProducerEntry

Decide = Callable[[MetadataImage], Decision[Any]]

# -- the controller ----------------------------------------------------------------------------------------------------


def decides_on_an_old_image() -> Any:
    """Decisions do not wait for one another: each is taken on the image of when it was asked for."""
    run = QuorumController._run

    async def run_early(self: QuorumController, decide: Decide) -> Any:
        before = self.newest_image

        def decide_early(_: MetadataImage) -> Decision[Any]:
            return decide(before)

        return await run(self, decide_early)

    return patch.object(QuorumController, "_run", run_early)


def decides_before_it_knows() -> Any:
    """The leader that is elected decides at once, before it has applied what was committed under the last
    controller."""
    notify = Quorum._notify_leader

    def notify_early(self: Quorum) -> None:
        machine = self._machine
        if machine is None or not machine.is_leader or self._applier.failure is not None:
            notify(self)
        elif self._reported != (now := (machine.leader_id, machine.term, True)):
            self._reported = now
            self._state_machine.leader_changed(now[0], now[1], is_active=True)

    return patch.object(Quorum, "_notify_leader", notify_early)


def forgets_changes_under_way() -> Any:
    """A request is answered when the controller has decided: the next controller may never have heard of it."""
    run = QuorumController._run

    async def run_answering_early(self: QuorumController, decide: Decide) -> Any:
        decided: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def decide_and_tell(image: MetadataImage) -> Decision[Any]:
            decision = decide(image)
            decided.set_result(decision.reply)
            return decision

        whole = asyncio.ensure_future(run(self, decide_and_tell))
        await asyncio.wait((whole, decided), return_when=asyncio.FIRST_COMPLETED)
        if not decided.done():
            return await whole
        whole.add_done_callback(lambda done: done.cancelled() or done.exception())
        return decided.result()

    return patch.object(QuorumController, "_run", run_answering_early)


def elects_anyone() -> Any:
    """Any live replica may lead, in sync or not."""
    elect = PartitionChange._elect

    def elect_anyone(self: PartitionChange, isr: tuple[int, ...]) -> Any:
        return elect(self, tuple(self.replicas))

    return patch.object(PartitionChange, "_elect", elect_anyone)


def obeys_old_leaders() -> Any:
    """A change of an in-sync set counts whatever epochs it comes with: those of a leader that was replaced, say."""
    check = alter_partition._check

    def check_but_epochs(
        image: MetadataImage, node_id: int, topic: TopicImage, state: PartitionState, change: Any
    ) -> None:
        try:
            check(image, node_id, topic, state, change)
        except BrokerError as error:
            if error.code not in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION):
                raise

    return patch.object(alter_partition, "_check", check_but_epochs)


# -- the quorum's disk -------------------------------------------------------------------------------------------------


def skips_syncs_of_votes() -> Any:
    """Terms and votes are written, but no message waits until they are on disk."""

    def write_only(directory: str, state: HardState, disk: Disk) -> None:
        write_whole(os.path.join(directory, QUORUM_STATE_FILE), encode_quorum_state(state), sync=False, disk=disk)

    return patch.object(store, "write_quorum_state", write_only)


# -- brokers -----------------------------------------------------------------------------------------------------------


def acknowledges_early() -> Any:
    """acks=all is answered after the append."""

    def answer_at_once(
        self: Producing, listener_name: str, answer: Any, uncommitted: Any, timeout_ms: int
    ) -> ProduceResponse:
        return ProduceResponse(answer, False)

    return patch.object(Producing, "_answer_when_committed", answer_at_once)


def shrinks_alone() -> Any:
    """A leader waits for the in-sync set that it asked for, before the controller has agreed."""

    def maximal(self: LeaderState) -> frozenset[int]:
        return self.in_sync if self.pending_in_sync is None else self.pending_in_sync

    return patch.object(LeaderState, "maximal_in_sync", property(maximal))


def goes_on_leading() -> Any:
    """A leader that was replaced leads on, alone."""
    change_role = PartitionTable._change_role

    def keep_role(self: PartitionTable, partition: Partition, state: PartitionState) -> None:
        if partition.is_leader and state.leader not in (-1, self._node_id):
            partition.leader.in_sync = frozenset((self._node_id,))
            partition.leader.pending_in_sync = None
            partition.leader._min_in_sync = 1
            partition.recount(self._clock_ms())
        else:
            change_role(self, partition, state)

    return patch.object(PartitionTable, "_change_role", keep_role)


def skips_truncation() -> Any:
    """A leader does not tell its followers where their logs part from its own."""
    return patch.object(reading, "_diverging_epoch", lambda partition, target: None)


def takes_used_sequences_for_duplicates() -> Any:
    """As Apache Kafka: a sequence of a transaction that has ended is answered as if the batch had come again."""
    return patch.object(ProducerEntry, "has_ended", lambda self, batch: False)


def skips_syncs() -> Any:
    """With `tidelog.flush=ack` nothing is ever synced."""
    return patch.object(PendingFlush, "sync", lambda self: None)


# -- coordinators ------------------------------------------------------------------------------------------------------


def coordinators_answer_early() -> Any:
    """A coordinator answers when its records are in its own log."""

    async def at_once() -> None:
        return None

    return patch.object(CoreHost, "_committed", lambda self, offset: at_once())


def coordinators_do_not_replay() -> Any:
    """A coordinator that takes over begins with nothing."""

    async def load_nothing(self: CoreHost[Any]) -> int:
        self.activate()
        return 0

    return patch.object(CoreHost, "load", load_nothing)


def takes_commits_of_any_generation() -> Any:
    """Every commit that names a member is taken, of whatever generation."""

    @contextmanager
    def patched() -> Iterator[None]:
        with (
            patch.object(offsets, "validate_commit", lambda group, request: None),
            patch.object(ConsumerGroups, "validate_commit", lambda self, group, request, now, **_: None),
        ):
            yield

    return patched()


def assigns_what_others_still_own() -> Any:
    """A member of a consumer group gets what it should have before others have given it up."""
    reconcile = heartbeats.reconcile

    def reconcile_at_once(*args: Any, **options: Any) -> Any:
        return reconcile(*args, **{**options, "owners": {}})

    return patch.object(heartbeats, "reconcile", reconcile_at_once)


# -- full disks --------------------------------------------------------------------------------------------------------


def stays_away_after_a_full_disk() -> Any:
    """A node that once had no room never says that it has some again."""
    is_short = DiskRoom.is_short

    def was_ever_short(self: DiskRoom) -> bool:
        return self._is_short or is_short(self)

    return patch.object(DiskRoom, "is_short", was_ever_short)

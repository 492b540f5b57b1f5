"""Changes of in-sync sets on their way to the controller: gathered, one request at a time, repeated until answered.

A proposal counts from the moment its leader made it, so nothing is lost by waiting. One that was overtaken by the
metadata (another leader, another set) is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome
from tidelog.model.errors import BrokerError
from tidelog.net.client.errors import RpcError
from tidelog.partitions.core.isr import REFUSED, SUPERSEDED
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.partition import Partition
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.replication")

AlterPartitions = Callable[[Sequence[IsrChange]], Awaitable[list[IsrOutcome]]]
"""Has the controller decide, wherever it is. Raises RpcError or BrokerError when it did not answer for any of them."""

CHANGES_PER_REQUEST_MAX = 1000
BACKOFF_FIRST_S = 0.02
BACKOFF_MAX_S = 1.0


class _Proposal(NamedTuple):
    partition: Partition
    leader: LeaderState
    in_sync: frozenset[int]
    partition_epoch: int

    @property
    def is_current(self) -> bool:
        leader = self.leader
        return (
            self.partition.role is leader
            and leader.pending_in_sync is self.in_sync
            and leader.partition_epoch == self.partition_epoch
        )


class InSyncProposals:
    def __init__(self, alter_partitions: AlterPartitions, broker_epoch: Callable[[], int]) -> None:
        self._alter_partitions = alter_partitions
        self._broker_epoch = broker_epoch
        self._waiting: dict[tuple[bytes, int], _Proposal] = {}
        self._tasks = BackgroundTasks()
        self._is_sending = False

    def add(self, partition: Partition, leader: LeaderState, in_sync: frozenset[int]) -> None:
        key = (partition.topic_id, partition.index)
        self._waiting[key] = _Proposal(partition, leader, in_sync, leader.partition_epoch)
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start(self._send(), "in-sync proposals")

    async def stop(self) -> None:
        await self._tasks.close()

    async def _send(self) -> None:
        try:
            await self._send_all()
        finally:
            self._is_sending = False

    async def _send_all(self) -> None:
        backoff_s = 0.0
        # What is proposed in this turn of the loop goes along.
        await asyncio.sleep(0)
        while self._waiting:
            sent = self._take()
            if not sent:
                continue
            try:
                outcomes = await self._alter_partitions([self._change(proposal) for proposal in sent.values()])
            except (RpcError, BrokerError) as error:
                if not backoff_s:
                    logger.warning("in-sync sets cannot be changed yet", count=len(sent), reason=str(error))
                outcomes = []
            except Exception:
                logger.exception("in-sync sets cannot be changed yet")
                outcomes = []
            self._settle(sent, outcomes)
            if sent:
                # Proposals that are left are tried again, unless something newer was proposed meanwhile.
                self._waiting = sent | self._waiting
                backoff_s = min(BACKOFF_MAX_S, max(BACKOFF_FIRST_S, 2 * backoff_s))
                await asyncio.sleep(backoff_s)
            else:
                backoff_s = 0.0

    def _take(self) -> dict[tuple[bytes, int], _Proposal]:
        taken: dict[tuple[bytes, int], _Proposal] = {}
        for key in list(self._waiting):
            if len(taken) == CHANGES_PER_REQUEST_MAX:
                break
            proposal = self._waiting.pop(key)
            if proposal.is_current:
                taken[key] = proposal
        return taken

    def _change(self, proposal: _Proposal) -> IsrChange:
        leader = proposal.leader
        return IsrChange(
            topic_id=proposal.partition.topic_id,
            partition=proposal.partition.index,
            leader_epoch=leader.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            isr=leader.with_epochs(proposal.in_sync, self._broker_epoch()),
        )

    def _settle(self, sent: dict[tuple[bytes, int], _Proposal], outcomes: list[IsrOutcome]) -> None:
        """Takes what was answered for good out of `sent`."""
        changed: dict[tuple[int, ...], list[str]] = {}
        for outcome in outcomes:
            error = outcome.error
            if error is not None and error.code not in REFUSED and error.code not in SUPERSEDED:
                continue
            proposal = sent.pop((outcome.topic_id, outcome.partition), None)
            if proposal is None or proposal.partition.role is not proposal.leader:
                continue
            if error is None:
                in_sync = tuple(sorted(outcome.state.isr))  # type: ignore[union-attr]
                changed.setdefault(in_sync, []).append(str(proposal.partition))
            else:
                logger.info("in-sync set not changed", partition=str(proposal.partition), reason=error.message)
            proposal.partition.in_sync_answered(proposal.leader, outcome, proposal.partition.clock_ms())
        _report(changed)


def _report(changed: Mapping[tuple[int, ...], Sequence[str]]) -> None:
    """One line for each answer: a node that comes back is in thousands of in-sync sets again."""
    for in_sync, partitions in changed.items():
        others = {"and_others": len(partitions) - 1} if len(partitions) > 1 else {}
        logger.info("in-sync set", partition=partitions[0], **others, in_sync=list(in_sync))

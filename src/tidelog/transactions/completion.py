"""Sees one prepared outcome through: a marker in every partition, then the record that says so.

Safe to repeat: a second marker of the same transaction finds nothing to end. That is what happens after a crash
between the markers and the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from tidelog.coordination.host import CoreHost, HostState
from tidelog.coordination.log import Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.telemetry.logs import get_logger
from tidelog.transactions.core.shard import TransactionShard
from tidelog.transactions.core.state import TransactionState
from tidelog.transactions.markers import MarkerWriter

logger = get_logger("tidelog.transactions")

RETRY_SECONDS_MIN = 0.01
RETRY_SECONDS_MAX = 1.0
POINTLESS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Answers that no repetition changes: the topic was deleted, or a newer coordinator has ended the transaction there."""


class Completion:
    def __init__(
        self,
        shard: CoreHost[TransactionShard],
        transactional_id: str,
        markers: MarkerWriter,
        *,
        coordinator_epoch: int,
        is_committed: bool,
    ) -> None:
        """`is_committed`: the record of the outcome is; before that no marker may be written."""
        metadata = shard.core.transactions[transactional_id]
        self._shard = shard
        self._transactional_id = transactional_id
        self._markers = markers
        self._marker = Marker(
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch,
            metadata.client_version,
        )
        self._missing = set(metadata.partitions)
        self._waiting: dict[TopicPartition, Awaitable[None]] = {}
        self._is_committed = is_committed

    def try_at_once(self) -> bool:
        """True when everything is written and recorded; otherwise `run` goes on from here."""
        if not self._is_committed:
            return False
        self._write_missing()
        return not self._missing and not self._waiting and self._record()

    def _write_missing(self) -> None:
        for partition in sorted(self._missing):
            try:
                commit = self._markers.write(self._marker, partition)
            except BrokerError as error:
                if self._is_pointless(partition, error):
                    self._missing.discard(partition)
                continue
            self._missing.discard(partition)
            if commit is not None:
                self._waiting[partition] = commit

    def _is_pointless(self, partition: TopicPartition, error: BrokerError) -> bool:
        if error.code in POINTLESS:
            logger.warning_limited(
                "transaction marker dropped",
                transactional_id=self._transactional_id,
                partition=str(partition),
                error=error.message,
            )
        return error.code in POINTLESS

    def _record(self) -> bool:
        """Writes that the outcome is complete; False when that has to be tried again."""
        marker = self._marker
        request = (self._transactional_id, marker.producer_id, marker.producer_epoch)
        try:
            # No request waits for the commit of this: if it is lost, the markers are written again.
            self._shard.perform(self._shard.core.decide_complete, request)
        except BrokerError:
            return False
        return True

    async def run(self) -> None:
        delay_s = RETRY_SECONDS_MIN
        while self._shard.state is HostState.ACTIVE:
            if self._is_committed:
                self._write_missing()
                await self._await_commits()
                if not self._missing and self._record():
                    return
            else:
                with suppress(BrokerError):
                    # A question is answered when all that was written before it is committed.
                    await self._shard.execute(self._shard.core.describe, ())
                    self._is_committed = True
                    continue
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_SECONDS_MAX)

    async def _await_commits(self) -> None:
        waiting, self._waiting = self._waiting, {}
        outcomes = await asyncio.gather(*waiting.values(), return_exceptions=True)
        for partition, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, BrokerError):
                if not self._is_pointless(partition, outcome):
                    self._missing.add(partition)
            elif outcome is not None:
                raise outcome

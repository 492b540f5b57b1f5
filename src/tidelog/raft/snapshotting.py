"""When snapshots are taken, and what becomes of one that a leader has sent."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.errors import BrokerError
from tidelog.raft.applying import Applier
from tidelog.raft.core.events import Event, SnapshotInstalled, SnapshotRefused, SnapshotTaken
from tidelog.raft.core.machine import RaftMachine
from tidelog.raft.core.messages import SnapshotId
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.snapshot_file import DamagedSnapshot
from tidelog.raft.store import QuorumStore
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.storage.errors import StorageFailure
from tidelog.telemetry.logs import get_logger

RECORDS_FOR_SNAPSHOT_AT_STOP = 64
"""Fewer records behind the last snapshot are replayed faster than a snapshot is written."""

logger = get_logger("tidelog.raft")


class Snapshotter:
    def __init__(
        self,
        settings: QuorumSettings,
        store: QuorumStore,
        applier: Applier,
        *,
        machine: Callable[[], RaftMachine],
        step: Callable[[Event], None],
        failed: Callable[[StorageFailure], None],
        now_ms: Callable[[], int],
    ) -> None:
        """`failed` is called when the log could not be synced."""
        self._settings = settings
        self._store = store
        self._applier = applier
        self._machine = machine
        self._step = step
        self._failed = failed
        self._now_ms = now_ms
        self._tasks = BackgroundTasks()
        self._is_taking = False
        self._taken_ms = now_ms()
        self._is_stopping = False

    # -- own snapshots -------------------------------------------------------------------------------------------------

    def maybe_take(self) -> None:
        """One at a time, beside everything else, when enough has come since the last."""
        interval_ms = self._settings.snapshot_interval_ms
        is_due = self._store.bytes_since_snapshot >= self._settings.snapshot_after_bytes or (
            interval_ms > 0 and self._now_ms() - self._taken_ms >= interval_ms
        )
        if is_due and not self._is_taking and not self._is_stopping:
            self._is_taking = True
            self._tasks.start(self._take_beside(), "metadata snapshot")

    async def _take_beside(self) -> None:
        try:
            await self._take()
        except StorageFailure as error:
            self._failed(error)
        except (OSError, BrokerError) as error:
            logger.warning("metadata snapshot failed", reason=str(error))
        finally:
            self._is_taking = False
            self._taken_ms = self._now_ms()

    async def _take(self) -> None:
        before = self._machine()
        if not self._is_wanted(self._applier.offset):
            return
        bytes_before = self._store.bytes_since_snapshot
        snapshot = await self._applier.take_snapshot(lambda offset: before.configurations.at(offset).members)
        # A leader's snapshot, or a failure of the disk, may have come in between.
        if self._is_wanted(snapshot.end_offset):
            start = self._store.adopt_snapshot(snapshot, self._store.bytes_since_snapshot - bytes_before)
            self._step(SnapshotTaken(snapshot, start))

    def _is_wanted(self, end_offset: int) -> bool:
        machine = self._machine()
        newest = 0 if machine.snapshot is None else machine.snapshot.end_offset
        return self._applier.failure is None and newest < end_offset <= machine.commit_offset

    async def stop(self, *, is_open: bool) -> None:
        """Leaves a snapshot when there is a log and it pays; OSError or BrokerError when that fails."""
        self._is_stopping = True
        await self._tasks.finished()
        if not is_open:
            return
        snapshots = self._store.snapshots
        if self._applier.offset - (snapshots[-1].end_offset if snapshots else 0) >= RECORDS_FOR_SNAPSHOT_AT_STOP:
            await self._take()

    # -- a leader's snapshot -------------------------------------------------------------------------------------------

    def install(self, snapshot: SnapshotId) -> None:
        """Checked and understood first, then put in the place of the log. StorageFailure when the disk refuses."""
        try:
            content = self._store.read_incoming(snapshot)
            records = self._applier.decode(content)
        except (DamagedSnapshot, BrokerError) as error:
            if isinstance(error, StorageFailure):
                raise
            logger.error("the leader's snapshot cannot be used", offset=snapshot.end_offset, reason=str(error))
            self._step(SnapshotRefused(snapshot))
            return
        self._store.install_snapshot(snapshot)
        try:
            self._applier.load_snapshot(snapshot, records)
        except Exception as error:
            self._applier.fail(error)
            return
        logger.info("metadata snapshot installed", offset=snapshot.end_offset)
        assert content.members is not None, "the store has looked"
        self._step(SnapshotInstalled(snapshot, content.members))

"""From committed entries to the state machine, and from the state machine to snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial

from tidelog.metadata.batch import decode_metadata_batch
from tidelog.metadata.framing import decode_metadata_record, encode_metadata_record
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.message import Message
from tidelog.raft.core.members import MemberSet
from tidelog.raft.core.messages import SnapshotId
from tidelog.raft.snapshot_file import SnapshotContent
from tidelog.raft.state_machine import StateMachine
from tidelog.raft.store import QuorumStore
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

CHUNK_BYTES = 256 * 1024
"""Applied without giving others a turn."""

logger = get_logger("tidelog.raft")


class Proposal:
    """Records of this node that wait for their commit."""

    __slots__ = ("base_offset", "done", "end_offset", "records")

    def __init__(self, records: Sequence[Message], done: asyncio.Future[int]) -> None:
        self.records = records
        self.done = done
        self.base_offset = self.end_offset = -1
        """Not known before they are in the log."""


class Applier:
    """`offset`: everything below has been applied."""

    def __init__(
        self,
        store: QuorumStore,
        state_machine: StateMachine,
        executor: Executor | None,
        *,
        term_of: Callable[[int], int],
        applied: Callable[[], None],
    ) -> None:
        """`term_of` is the term of the entry that ends at an offset; `applied` is called after each chunk."""
        self._store = store
        self._machine = state_machine
        self._executor = executor
        self._term_of = term_of
        self._applied = applied
        self.offset = 0
        self._commit_offset = 0
        self.proposals: dict[int, Proposal] = {}
        """By the offset they begin at."""
        self._tasks = BackgroundTasks()
        self._is_applying = False
        """A task applies what is committed in portions."""
        self.failure: BrokerError | None = None
        """What is committed cannot be read or understood: this node cannot go on. `offset` stays where the state is."""

    @staticmethod
    def decode(content: SnapshotContent) -> list[Message]:
        """The records of a snapshot; BrokerError when this version does not know one of them."""
        return [decode_metadata_record(value) for value in content.values]

    def load_snapshot(self, snapshot: SnapshotId, records: list[Message]) -> None:
        self._machine.load_snapshot(records, snapshot.end_offset, snapshot.term)
        self.offset = self._commit_offset = snapshot.end_offset

    def advance(self, commit_offset: int) -> None:
        """More is committed. What is little is applied before this returns."""
        self._commit_offset = max(self._commit_offset, commit_offset)
        if not self._is_applying and self.failure is None:
            self._apply_chunk()
            if self.offset < self._commit_offset and self.failure is None:
                self._is_applying = True
                self._tasks.start(self._apply_all(), "applying of metadata")

    async def _apply_all(self) -> None:
        try:
            while self.offset < self._commit_offset and self.failure is None:
                await asyncio.sleep(0)
                self._apply_chunk()
        finally:
            self._is_applying = False

    def forget_commits(self) -> None:
        """The end of the log is about to go, as after a crash: what of it was committed is said and sent again."""
        self._commit_offset = self.offset

    def _apply_chunk(self) -> None:
        try:
            applied_bytes = 0
            while self.offset < self._commit_offset and applied_bytes < CHUNK_BYTES:
                proposal = self.proposals.get(self.offset)
                if proposal is None:
                    applied_bytes += self._apply_from_log()
                else:
                    self._apply_proposal(proposal)
        except Exception as error:
            self.fail(error)
            return
        self._applied()

    def fail(self, error: Exception) -> None:
        """The state cannot follow what is committed."""
        if isinstance(error, BrokerError):
            logger.error("committed metadata cannot be applied", offset=self.offset, reason=error.message)
            self.failure = error
        else:
            logger.exception("committed metadata cannot be applied", offset=self.offset)
            self.failure = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
        self._applied()

    def _apply_proposal(self, proposal: Proposal) -> None:
        """What this node proposed itself need not be read again."""
        self._machine.apply(proposal.records, proposal.end_offset, self._term_of(proposal.end_offset))
        del self.proposals[proposal.base_offset]
        self.offset = proposal.end_offset
        if not proposal.done.done():
            proposal.done.set_result(proposal.end_offset)

    def _apply_from_log(self) -> int:
        size = 0
        for header, data in self._store.read_batches(self.offset, self._commit_offset, CHUNK_BYTES):
            if header.next_offset > self._commit_offset or header.base_offset in self.proposals:
                break
            records = [decode_metadata_record(value) for value in decode_metadata_batch(data)]
            if records:
                self._machine.apply(records, header.next_offset, header.partition_leader_epoch)
            self.offset = header.next_offset
            size += len(data)
        return size

    # -- snapshots -----------------------------------------------------------------------------------------------------

    async def take_snapshot(self, members_at: Callable[[int], MemberSet]) -> SnapshotId:
        """Writes the state of now beside everything else; OSError or BrokerError when it cannot be written."""
        records = self._machine.begin_snapshot()
        snapshot = SnapshotId(self.offset, self._term_of(self.offset))
        self._store.begin_snapshot()
        write = partial(self._store.write_snapshot, snapshot, members_at(self.offset), _encode_all(records))
        await asyncio.get_running_loop().run_in_executor(self._executor, write)
        logger.info("metadata snapshot", offset=snapshot.end_offset)
        return snapshot

    async def stop(self) -> None:
        await self._tasks.close()


def _encode_all(records: Callable[[], Iterable[Message]]) -> Iterator[bytes]:
    for record in records():
        yield encode_metadata_record(record)

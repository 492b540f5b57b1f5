"""The quorum as the rest of the node sees it: propose records, be told what is committed, know who leads.

A quorum of one is the same thing: it elects itself while it starts and commits by its own fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from tidelog.protocol.message import Message
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.state_machine import StateMachine
from tidelog.raft.status import QuorumStatus
from tidelog.raft.transport import Transport


class Quorum:
    """All methods belong to the event loop. `start` first."""

    def __init__(
        self,
        data_directory: Path,
        settings: QuorumSettings,
        *,
        state_machine: StateMachine,
        transport: Transport,
        wall_clock_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        executor: Executor | None = None,
        seed: int | None = None,
    ) -> None:
        """`executor` runs what waits for the disk. `seed` is for the random part of election timeouts."""
        raise NotImplementedError

    async def start(self) -> None:
        """Opens `__cluster_metadata-0` and begins to take part; DirectoryRefused when what is there cannot be read.

        The state machine gets the newest snapshot before this returns. A sole voter has elected itself, committed and
        applied its whole log when this returns; others apply the log as they hear from their leader.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Hands over leadership if somebody else can have it, leaves a snapshot when it pays, closes the log."""
        raise NotImplementedError

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all that was committed before: whether it may decide."""
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """Who leads as far as this node knows; -1 for nobody."""
        raise NotImplementedError

    @property
    def term(self) -> int:
        raise NotImplementedError

    @property
    def members(self) -> MemberSet:
        """In force on this node, possibly not committed yet."""
        raise NotImplementedError

    def status(self) -> QuorumStatus:
        raise NotImplementedError

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def propose(self, records: Sequence[Message]) -> int:
        """Appends the records as one batch; returns the offset after them when they are committed and applied.

        Proposals made without waiting for one another keep their order and share syncs and messages. Raises NotLeader
        (nothing written), LeadershipLost (fate unknown), QuorumBusy, StorageFailure.
        """
        raise NotImplementedError

    async def read_index(self) -> int:
        """An offset such that a state that has applied it holds everything acknowledged anywhere before this call.

        Leader only (NotLeader otherwise): it asks a majority whether it still leads.
        """
        raise NotImplementedError

    # -- members -------------------------------------------------------------------------------------------------------

    async def add_learner(self, member: Member) -> None:
        """From now on the member gets the log; returns when that is committed. A learner of the id is replaced."""
        raise NotImplementedError

    async def add_voter(self, member: Member, *, timeout_s: float = 30.0) -> None:
        """Takes the node in as a learner if it is none yet, waits until it has caught up, makes it a voter.

        Raises MembershipRefused (DUPLICATE_VOTER; REQUEST_TIMED_OUT when it does not catch up: it stays a learner).
        """
        raise NotImplementedError

    async def remove_member(self, node_id: int) -> None:
        """Voter or learner; the leader too, which then hands over. MembershipRefused for one that is not there or the
        last voter. Returns when committed."""
        raise NotImplementedError

    async def transfer_leadership(self, node_id: int | None = None, *, timeout_s: float = 5.0) -> int:
        """Makes another voter the leader (None: the one that is furthest); returns who leads then.

        Raises MembershipRefused when it did not come to be; this node then leads on.
        """
        raise NotImplementedError

    # -- the other members ---------------------------------------------------------------------------------------------

    async def receive(self, body: bytes) -> bytes:
        """Answers a request of another member (API key `RAFT_API_KEY`): `body` is what Transport.request was given.

        Raises MalformedMessage for bytes that are none. Requests of one peer may overlap: call it for the next before
        the last has answered, in the order they came.
        """
        raise NotImplementedError

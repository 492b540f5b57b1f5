"""What the leader does beside taking proposals: current reads, changes of the members, handing over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.raft.core.effects import Done, Refused
from tidelog.raft.core.events import AddLearner, AddVoter, Event, ReadIndex, RemoveMember, Token, TransferLeadership
from tidelog.raft.core.members import Member
from tidelog.raft.errors import MembershipRefused, NotLeader

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S = 0.01
PATIENCE_S = 10.0
"""How long a command waits for another one to be done with."""


class _NotNow(MembershipRefused):
    """Refused for a reason that will pass."""


class Commands:
    """Turns commands into events of the quorum's machine, and their outcomes into results."""

    def __init__(
        self,
        step: Callable[[Event], None],
        leader_id: Callable[[], int],
        outage: Callable[[], BrokerError | None],
    ) -> None:
        """`outage` says why this member takes no part at the moment; None when it does."""
        self._step = step
        self._leader_id = leader_id
        self._outage = outage
        self._open: set[asyncio.Future[int]] = set()

    async def read_index(self) -> int:
        """An offset such that a state that has applied it holds everything acknowledged anywhere before this call.

        Leader only (NotLeader otherwise): it asks a majority whether it still leads.
        """
        return await self._command(ReadIndex)

    async def add_learner(self, member: Member) -> None:
        """From now on the member gets the log; returns when that is committed. A learner of the id is replaced."""
        await self._command(lambda token: AddLearner(token, member))

    async def add_voter(self, member: Member, *, timeout_s: float = 30.0) -> None:
        """Takes the node in as a learner if it is none yet, waits until it has caught up, makes it a voter.

        A voter of the id with another data directory loses its vote first. Raises MembershipRefused (DUPLICATE_VOTER;
        REQUEST_TIMED_OUT when it does not catch up: it stays a learner).
        """
        await self._command(lambda token: AddVoter(token, member, int(timeout_s * 1000)))

    async def remove_member(self, node_id: int) -> None:
        """Voter or learner; the leader too, which then hands over. MembershipRefused for one that is not there or the
        last voter. Returns when committed."""
        await self._command(lambda token: RemoveMember(token, node_id))

    async def transfer_leadership(self, node_id: int | None = None, *, timeout_s: float = 5.0) -> int:
        """Makes another voter the leader (None: the one that is furthest); returns the new leader.

        Raises MembershipRefused when it did not come to be; this node then leads on. Until an election timeout has
        passed since, a successor that was only slow may take over all the same.
        """
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._command(lambda token: TransferLeadership(token, node_id))
        except TimeoutError:
            raise MembershipRefused(
                ErrorCode.REQUEST_TIMED_OUT, f"The leadership was not handed over within {timeout_s:g} s."
            ) from None
        while self._leader_id() < 0 and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(POLL_S)
        return self._leader_id()

    # -- outcomes ------------------------------------------------------------------------------------------------------

    async def _command(self, event: Callable[[Token], Event]) -> int:
        loop = asyncio.get_running_loop()
        patience_s = loop.time() + PATIENCE_S
        while True:
            outage = self._outage()
            if outage is not None:
                raise outage
            token: asyncio.Future[int] = loop.create_future()
            self._open.add(token)
            token.add_done_callback(self._open.discard)
            self._step(event(token))
            try:
                return await token
            except _NotNow as refusal:
                if loop.time() >= patience_s:
                    raise MembershipRefused(refusal.code, refusal.message) from None
                await asyncio.sleep(POLL_S)

    def settle(self, effect: Done | Refused) -> None:
        token = effect.token
        assert isinstance(token, asyncio.Future), "made by a command"
        if token.done():
            return
        if isinstance(effect, Done):
            token.set_result(effect.offset)
        elif effect.code == ErrorCode.NOT_CONTROLLER:
            token.set_exception(NotLeader(self._leader_id(), effect.text))
        else:
            error = _NotNow if effect.passes else MembershipRefused
            token.set_exception(error(effect.code, effect.text))

    def fail(self, error: BrokerError) -> None:
        for token in list(self._open):
            if not token.done():
                token.set_exception(error)

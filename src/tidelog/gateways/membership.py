"""A member of an ordinary consumer group that a gateway runs for its client.

It speaks the consumer protocol (KIP-848): the coordinator assigns, so no member has to lead, and no request waits for
the others. Members of the classic protocol share the group all the same: the coordinator lets a group change its
protocol while it is alive, and serves each member in its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.gateways.access import EARLIEST, LATEST
from tidelog.gateways.consuming import Reset, find_offset
from tidelog.gateways.coordinator import COORDINATOR_MOVES, PATIENCE_SECONDS, AsMember, GroupAccess
from tidelog.gateways.member_session import JOIN_EPOCH, MemberSession, Subscription, error_of
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.index import ApiKey
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.model.ids import TopicPartition

__all__ = ["GroupMember", "MemberOwner", "Reset", "Subscription"]

logger = get_logger("tidelog.gateways")

REVOKE_SECONDS_MAX: Final = 10.0
"""How much of the time for giving up a partition its owner gets."""
LEAVE_SECONDS_MAX: Final = 2.0
"""How long a member that leaves looks for a coordinator that moves. One that stays away is removed in the end."""
PAUSE_SECONDS_MIN: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
"""Between two attempts to reach the coordinator."""
COMMIT_ATTEMPTS_MAX: Final = 5

_HEARTBEAT: Final = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)

_REJOIN: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""The group goes on without the member."""
_OFFSETS_UNKNOWN: Final = frozenset(
    {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID, *COORDINATOR_MOVES}
)
"""Committed offsets cannot be read now; the next heartbeat says more."""


class MemberOwner(Protocol):
    """Who reads the partitions of a member."""

    async def revoking(self, partitions: Collection[TopicPartition]) -> None:
        """The last moment to commit offsets of these partitions, and to stop reading them; another member goes on from
        there. It has `REVOKE_SECONDS_MAX`."""

    def changed(self) -> None:
        """The partitions of the member are others now, or it has failed."""


class GroupMember:
    """Life: `start`, then partitions come and go in `positions`, then `close`, which leaves the group."""

    def __init__(
        self,
        access: LogAccess,
        group_id: str,
        subscription: Subscription,
        *,
        reset: Reset = Reset.LATEST,
        owner: MemberOwner | None = None,
    ) -> None:
        """`reset` is for partitions of which the group has committed no offset."""
        self.group: Final = GroupAccess(access, group_id)
        self.positions: dict[TopicPartition, int] = {}
        """The partitions that the member has, and where to begin to read each: the offset that was committed when it
        came."""
        self.error: BrokerError | None = None
        """Why the member has ended by itself. It has no partitions then."""
        self._access = access
        self._reset = reset
        self._owner = owner
        self._session = MemberSession(access, group_id, subscription)
        self._lock = asyncio.Lock()
        """Heartbeats and commits take turns, or a commit could come with the epoch before."""
        self._changes = _Changes()
        self._tasks = BackgroundTasks()

    @property
    def as_member(self) -> AsMember:
        return AsMember(self._session.member_id, self._session.epoch)

    @property
    def changes(self) -> int:
        """Counts the changes of `positions` and `error`."""
        return self._changes.count

    async def changed(self, since: int) -> None:
        """Returns when there were more changes than `since`."""
        await self._changes.wait(since)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins. Raises BrokerError where the group does not take the member. Partitions may come later."""
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        pause_s = PAUSE_SECONDS_MIN
        try:
            while not await self._beat():
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group's coordinator cannot be reached.")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_SECONDS_MAX)
        except BaseException:
            await self._leave()
            raise
        self._tasks.start(self._live(), "group member")

    def subscribe(self, subscription: Subscription) -> None:
        """Changes what the member reads."""
        self._session.subscribe(subscription)

    async def close(self) -> None:
        """Leaves the group. Whoever has offsets to commit does that before."""
        await self._tasks.close()
        await self._leave()

    async def _leave(self) -> None:
        self.positions.clear()
        if self._session.epoch > JOIN_EPOCH:
            farewell = self._session.new_farewell()
            self._session.was_fenced()
            # A coordinator that does not hear it removes the member when its session is over.
            with contextlib.suppress(BrokerError):
                await self.group.ask(_HEARTBEAT, farewell, error_of, patience_s=LEAVE_SECONDS_MAX)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises BrokerError, with UNKNOWN_MEMBER_ID for a member that its group has lost."""
        for attempt in range(COMMIT_ATTEMPTS_MAX):
            async with self._lock:
                member = self.as_member
                if member.epoch <= JOIN_EPOCH:
                    raise self.error or BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "The group does not have the member.")
                try:
                    await self.group.commit(offsets, member)
                except BrokerError as error:
                    if error.code is not ErrorCode.STALE_MEMBER_EPOCH or attempt == COMMIT_ATTEMPTS_MAX - 1:
                        raise
                else:
                    return
                # The response with the newer epoch was lost; what else it said is carried out by the next heartbeat.
                await self._say_and_listen()
                self._session.hurry.set()

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        session = self._session
        pause_s = 0.0
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s or session.wait_s):
                        await session.hurry.wait()
                session.hurry.clear()
                is_heard = await self._beat()
                pause_s = 0.0 if is_heard else min(max(2 * pause_s, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        except BrokerError as error:
            logger.warning_limited("a group has refused its member", limit_by=("reason",), reason=error.message)
            self.error = error
            await self._leave()
            self._tell()

    async def _beat(self) -> bool:
        """One heartbeat and what follows from it; whether the coordinator has answered."""
        async with self._lock:
            is_heard = await self._say_and_listen()
        if is_heard:
            await self._reconcile()
        return is_heard

    async def _say_and_listen(self) -> bool:
        """Raises BrokerError for what no other attempt can mend."""
        session = self._session
        heartbeat = session.new_heartbeat(self.positions)
        try:
            reply = await self.group.ask(_HEARTBEAT, heartbeat, error_of, patience_s=0.0)
            if isinstance(reply, BrokerError):
                raise reply
        except BrokerError as error:
            session.heard_nothing()
            if error.code in COORDINATOR_MOVES:
                return False
            if error.code not in _REJOIN or session.epoch == JOIN_EPOCH:
                raise
            session.was_fenced()
            if self.positions:
                self.positions.clear()
                self._tell()
            return False
        session.heard(reply)
        return True

    # -- partitions ----------------------------------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        """From the partitions that the member has to those that it is assigned: first it gives up, then it takes."""
        session = self._session
        assigned = session.assigned()
        revoked = [each for each in self.positions if each not in assigned]
        added = [each for each in assigned if each not in self.positions]
        if revoked:
            await self._revoke(revoked)
        taken: dict[TopicPartition, int] = {}
        if added:
            try:
                taken = await _find_positions(self._access, self.group, self.as_member, self._reset, added)
            except BrokerError as error:
                if not error.code.is_retriable and error.code not in _OFFSETS_UNKNOWN:
                    raise
                session.could_not_take_all()
        self.positions.update(taken)
        if revoked or taken:
            session.has_changed()
            self._tell()

    async def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        if self._owner is not None:
            try:
                async with asyncio.timeout(REVOKE_SECONDS_MAX):
                    await self._owner.revoking(partitions)
            except (BrokerError, TimeoutError) as error:
                logger.info_limited("an offset could not be committed", limit_by=("reason",), reason=str(error))
        for each in partitions:
            self.positions.pop(each, None)

    def _tell(self) -> None:
        self._changes.add()
        if self._owner is not None:
            self._owner.changed()


async def _find_positions(
    access: LogAccess, group: GroupAccess, member: AsMember, reset: Reset, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where a member begins to read partitions that came to it."""
    committed = await group.committed(partitions, member)
    found: dict[TopicPartition, int] = {}
    for each in partitions:
        if each in committed:
            found[each] = committed[each].offset
        elif reset is Reset.NONE:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Group {group.group_id} has committed no offset of {each}: commit one, or begin with the earliest or "
                "the latest record.",
            )
        else:
            found[each] = await find_offset(access, each, EARLIEST if reset is Reset.EARLIEST else LATEST)
    return found


class _Changes:
    """A count that can be waited for."""

    __slots__ = ("_next", "count")

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def add(self) -> None:
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, since: int) -> None:
        while self.count <= since:
            await self._next.wait()

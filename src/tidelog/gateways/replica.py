"""Whether the replica of a node has what a reader has seen elsewhere: waits for it, and finds out where it is lost.

A follower may be behind, and a new leader may not know yet what was committed before. Only a leader can say that
something is gone: its log is the one that the others follow.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.gateways.access import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, LeaderElsewhere, Read
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess

LEADER_WAIT_MS: Final = 3_000
"""How long a new leader may take to hear from its followers: until then it does not know what is committed."""
_PAUSE_SECONDS_MIN: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 0.1


class _Answer(Enum):
    REACHED = "it has all of it"
    UNCOMMITTED = "it is written, and not known to be committed"
    BEHIND = "it is not written"
    PARTED = "the log has other records there, or none"


class _Look(NamedTuple):
    answer: _Answer
    log_end: int = -1
    """Of the common part, where the logs have parted."""


class Replica:
    """One partition on this node, or on node `at`."""

    def __init__(self, access: LogAccess, topic: str, index: int, at: int | None = None) -> None:
        self._access = access
        self._topic = topic
        self._index = index
        self._at = at

    async def reaches(self, offset: int, epoch: int, stable_offset: int, wait_ms: int) -> int | None:
        """None when everything below `offset` can be read, the last record of it written in `epoch` (-1: in any), and
        everything below `stable_offset` by read_committed readers. Otherwise the offset from which it is lost.

        Raises LeaderElsewhere where this node does not lead and is behind after `wait_ms`, and BrokerError where the
        leader is.
        """
        wait = _Wait(wait_ms)
        while True:
            look = await self._look(offset, epoch, stable_offset)
            if look.answer is _Answer.REACHED:
                return None
            if look.answer is _Answer.PARTED and self._leads():
                return look.log_end
            left_s = self._left_s(wait)
            if look.answer is _Answer.UNCOMMITTED:
                await self._until_more_is_committed(offset, stable_offset, left_s)
            else:
                await wait.pause(left_s)

    async def knows_all_committed(self, wait_ms: int) -> None:
        """Returns where this node leads and can read all that was ever acknowledged; raises as `reaches` does."""
        wait = _Wait(wait_ms)
        while True:
            try:
                await self._access.list_offset(self._topic, self._index, LATEST, at=self._at)
                return
            except LeaderElsewhere:
                raise
            except BrokerError as error:
                if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                    raise
            await wait.pause(self._left_s(wait))

    async def _look(self, offset: int, epoch: int, stable_offset: int) -> _Look:
        isolation = READ_COMMITTED if stable_offset else READ_UNCOMMITTED
        read = Read(self._topic, self._index, offset, max_bytes=1, isolation=isolation, last_epoch=epoch)
        try:
            fetched = await self._access.fetch(read, at=self._at)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return _Look(_Answer.REACHED if await self._was_deleted(offset) else _Answer.BEHIND)
        if fetched.diverging is not None:
            return _Look(_Answer.PARTED, fetched.diverging[1])
        if fetched.high_watermark < offset or fetched.last_stable_offset < stable_offset:
            return _Look(_Answer.UNCOMMITTED)
        return _Look(_Answer.REACHED)

    async def _was_deleted(self, offset: int) -> bool:
        """What retention has deleted was there: nothing is missing. Of a follower only the leader is believed."""
        try:
            start = (await self._access.list_offset(self._topic, self._index, EARLIEST, at=self._at)).offset
        except LeaderElsewhere:
            return False
        return offset < start

    async def _until_more_is_committed(self, offset: int, stable_offset: int, left_s: float) -> None:
        """A fetch of the last record that is wanted returns when it can be read."""
        isolation = READ_COMMITTED if stable_offset else READ_UNCOMMITTED
        wait_ms = max(1, int(left_s * 1000))
        read = Read(self._topic, self._index, max(0, offset - 1), max_bytes=1, wait_ms=wait_ms, isolation=isolation)
        if stable_offset:
            read = read.replace(offset=stable_offset - 1, wait_ms=min(wait_ms, int(_PAUSE_SECONDS_MAX * 1000)))
        try:
            await self._access.fetch(read, at=self._at)
        except BrokerError as error:
            # The log was cut meanwhile, or its begin was deleted: the next look says which.
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise

    def _leads(self) -> bool:
        return self._access.leader_elsewhere(self._topic, self._index).leader in (self._access.node_id, self._at)

    def _left_s(self, wait: _Wait) -> float:
        """How much longer may be waited; raises when it is over."""
        leads = self._leads()
        left_s = wait.left_s(LEADER_WAIT_MS if leads else 0)
        if left_s > 0:
            return left_s
        if leads:
            raise BrokerError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"The leader of {self._topic}-{self._index} does not know yet what is committed: ask again.",
            )
        raise self._access.leader_elsewhere(self._topic, self._index)


class _Wait:
    def __init__(self, wait_ms: int) -> None:
        self._now_s = asyncio.get_running_loop().time
        self._began_s = self._now_s()
        self._wait_ms = wait_ms
        self._pause_s = _PAUSE_SECONDS_MIN

    def left_s(self, wait_ms_min: int) -> float:
        return self._began_s + max(self._wait_ms, wait_ms_min) / 1000 - self._now_s()

    async def pause(self, left_s: float) -> None:
        await asyncio.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, _PAUSE_SECONDS_MAX)

"""Reads a partition once it has what the reader wants to see. Only the leader can say that it is not there at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import EARLIEST, LeaderElsewhere, Read
from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.patience import fetch_patiently
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.gateways.access import Fetched, LogAccess

_PAUSE_SECONDS_MIN: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 0.1
"""Between two looks at a replica that has not even written what is wanted; while it is only not committed yet, the
fetch itself waits."""


class Wanted(Read):
    """What a reader asks for."""

    record: int | None = None
    """The offset of a record that must be readable first."""

    @property
    def end(self) -> int:
        """The high watermark that is needed at least."""
        return self.offset if self.record is None else max(self.offset, self.record + 1)


async def read_when_there(access: LogAccess, wanted: Wanted, at: int | None = None) -> Fetched:
    """Reads here, or at another node. Raises LeaderElsewhere where this node has no replica, or one that still lacks
    what is wanted when the wait is over; HttpError where the leader lacks it."""
    deadline_s = _now_s() + wanted.wait_ms / 1000
    if wanted.record is None:
        fetched = await _try_to_read(access, wanted, wanted.wait_ms, at)
        if fetched is not None:
            return fetched
    await _wait_until_there(access, wanted, deadline_s, at)
    fetched = await _try_to_read(access, wanted, 0, at)
    if fetched is None:
        # The log was cut meanwhile: a new leader never had it.
        raise _not_there(wanted)
    return fetched


async def _try_to_read(access: LogAccess, wanted: Wanted, wait_ms: int, at: int | None) -> Fetched | None:
    """None where the replica does not reach as far as the offset."""
    try:
        fetched = await fetch_patiently(access, wanted.replace(wait_ms=wait_ms), at)
    except BrokerError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise
    return fetched if fetched.high_watermark >= wanted.end else None


async def _wait_until_there(access: LogAccess, wanted: Wanted, deadline_s: float, at: int | None) -> None:
    pause_s = _PAUSE_SECONDS_MIN
    last_needed = max(0, wanted.end - 1)
    while True:
        left_s = max(0.0, deadline_s - _now_s())
        try:
            looked = Read(wanted.topic, wanted.index, last_needed, max_bytes=1, wait_ms=int(left_s * 1000))
            fetched = await fetch_patiently(access, looked, at)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await _refuse_deleted(access, wanted, at)
            if left_s > 0:
                await asyncio.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _PAUSE_SECONDS_MAX)
                continue
        else:
            if fetched.high_watermark >= wanted.end:
                return
            if left_s > 0:
                continue
        elsewhere = access.leader_elsewhere(wanted.topic, wanted.index)
        if elsewhere.leader not in (access.node_id, at):
            raise elsewhere
        raise _not_there(wanted)


async def _refuse_deleted(access: LogAccess, wanted: Wanted, at: int | None) -> None:
    """What was deleted never comes: there is nothing to wait for."""
    try:
        start = (await access.list_offset(wanted.topic, wanted.index, EARLIEST, at=at)).offset
    except LeaderElsewhere:
        # A follower does not know better than the leader.
        return
    if wanted.offset < start:
        raise HttpError(
            416,
            f"{wanted.topic}-{wanted.index} begins at offset {start}: {wanted.offset} was deleted.",
            kafka_error=ErrorCode.OFFSET_OUT_OF_RANGE.name,
        )


def _not_there(wanted: Wanted) -> HttpError:
    what = f"the record at {wanted.end - 1}" if wanted.end else "the offset"
    return HttpError(
        416,
        f"{wanted.topic}-{wanted.index} does not have {what} yet.",
        kafka_error=ErrorCode.OFFSET_OUT_OF_RANGE.name,
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()

"""Fetches that wait for records, here or for another node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.gateways.access import Fetched, LogAccess, Read

LOOK_SECONDS_MIN: Final = 0.02
LOOK_SECONDS_MAX: Final = 0.5
"""Between two looks at a partition of another node that has nothing new. No fetch waits there: answers come in the
order of the requests, so everything that this node sends on to that one would wait behind it."""


async def fetch_patiently(access: LogAccess, read: Read, at: int | None) -> Fetched:
    """As `LogAccess.fetch`, which is not to wait at another node."""
    if at is None or at == access.node_id:
        return await access.fetch(read)
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + read.wait_ms / 1000
    pause_s = LOOK_SECONDS_MIN
    while True:
        fetched = await access.fetch(read.replace(wait_ms=0), at=at)
        left_s = deadline_s - now_s()
        if fetched.region is not None or left_s <= 0:
            return fetched
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LOOK_SECONDS_MAX)

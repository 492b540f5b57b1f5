"""Long work on the event loop, in portions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from tidelog.model.limits import KEYS_BETWEEN_PAUSES

T = TypeVar("T")


async def with_pauses(things: Iterable[T], per_turn: int = KEYS_BETWEEN_PAUSES) -> AsyncIterator[T]:
    """All of them, with a turn for other requests now and then."""
    for count, thing in enumerate(things, 1):
        yield thing
        if count % per_turn == 0:
            await asyncio.sleep(0)

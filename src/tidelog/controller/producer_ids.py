"""Hands out producer ids from the block this node owns, and asks for the next block when it is used up."""

from __future__ import annotations

import asyncio

from tidelog.controller.service import ControllerService


class ProducerIds:
    """Ids of a block that were not used when the node stops are never used: a gap, no duplicate."""

    def __init__(self, controller: ControllerService) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        while self._next >= self._end:
            async with self._refill:
                if self._next >= self._end:
                    block = await self._controller.allocate_producer_ids()
                    self._next, self._end = block.first, block.first + block.size
        found = self._next
        self._next += 1
        return found

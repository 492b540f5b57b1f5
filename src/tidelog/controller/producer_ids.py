"""Hands out producer ids from the block this node owns, and asks for the next block when it is used up."""

from __future__ import annotations

import asyncio

from tidelog.controller.core.producer_ids import ProducerIdBlock
from tidelog.controller.service import ControllerService
from tidelog.model.errors import BrokerError, ErrorCode


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
                    block = await self._next_block()
                    self._next, self._end = block.first, block.first + block.size
        found = self._next
        self._next += 1
        return found

    async def _next_block(self) -> ProducerIdBlock:
        try:
            return await self._controller.allocate_producer_ids()
        except BrokerError as error:
            # The controller will be back, and older producers try again after no other code.
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error

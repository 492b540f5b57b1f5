"""Where scrapers and operators come in: the admin port, if the node has one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tidelog.config.listener import parse_address
from tidelog.node.errors import NodeStartError
from tidelog.runtime.loop_delay import LoopDelay

if TYPE_CHECKING:
    from tidelog.gateways.http.admin import AdminSource

ORDINARY_START_SECONDS = 0.5
"""A start that takes longer (a recovery, a quorum that is not there) has its admin port answer meanwhile."""


class AdminDoor:
    """Bound when it is made, so that an address that is taken stops the start. It answers once the node has started, or
    when the start takes long."""

    def __init__(self, source: AdminSource, address: str) -> None:
        from tidelog.gateways.http.admin import AdminListenError, AdminServer

        self._server = AdminServer(source, *parse_address(address))
        try:
            self._server.bind()
        except AdminListenError as error:
            raise NodeStartError(str(error)) from None
        self._delay = LoopDelay(source.metrics.loop_delay.observe)
        self._has_started = asyncio.Event()
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        """What it imports would make an ordinary start twice as long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ORDINARY_START_SECONDS):
                await self._has_started.wait()
        await self._server.start()

    def measure_delay(self) -> None:
        """The delay of the loop is measured from now on: for scrapers."""
        self._delay.start()

    async def opened(self) -> None:
        """The node has started: returns when the port answers."""
        self._has_started.set()
        await self._opening

    async def close(self) -> None:
        """At any point of the start."""
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        self._delay.stop()
        await self._server.stop()

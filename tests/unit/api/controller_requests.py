"""Requests answered by the handlers on top of a real controller; what comes back went through the wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.unit.api.answering import ask, services_of
from tests.unit.controller.quorums import sole_node, stop

from tidelog.api.authorization import Authorizer
from tidelog.api.table import BY_KEY
from tidelog.config.broker import BrokerConfig
from tidelog.controller.service import ControllerService
from tidelog.protocol.message import Message


class Asker:
    def __init__(self, controller: ControllerService, config: BrokerConfig, authorizer: Authorizer | None) -> None:
        self.controller = controller
        self._services = services_of(
            node_id=config.node_id,
            cluster_id="cluster",
            config=config,
            metadata=controller.metadata,
            controller=controller,
            authorizer=authorizer,
        )

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The response as a client of this version decodes it; the newest version served when none is given."""
        assert request.API_KEY is not None
        return await ask(self._services, request, BY_KEY[request.API_KEY].max_version if version is None else version)


def answered(
    path: Path, use: Callable[[Asker], Awaitable[None]], *, authorizer: Authorizer | None = None, **settings: Any
) -> None:
    async def run() -> None:
        config = BrokerConfig(**settings)
        controller = await sole_node(config)
        try:
            await use(Asker(controller, config, authorizer))
        finally:
            await stop(controller)

    asyncio.run(run())

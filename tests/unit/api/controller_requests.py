"""Requests answered by the handlers on top of a real controller; what comes back went through the wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tests.unit.controller.quorums import sole_node, stop

from tidelog.api.context import RequestContext, Services
from tidelog.api.table import BY_KEY
from tidelog.config.broker import BrokerConfig
from tidelog.controller.service import ControllerService
from tidelog.protocol.message import Message

UNUSED = cast(Any, None)
"""The handlers tested here reach the controller and the image only."""


class Asker:
    def __init__(self, controller: ControllerService, config: BrokerConfig) -> None:
        self.controller = controller
        self._services = Services(
            node_id=config.node_id,
            cluster_id="cluster",
            config=config,
            metadata=controller.metadata,
            controller=controller,
            channel=UNUSED,
            cluster=UNUSED,
            partitions=UNUSED,
            fetch_sessions=UNUSED,
            producer_ids=UNUSED,
            groups=UNUSED,
            transactions=UNUSED,
            markers=UNUSED,
            metrics=UNUSED,
            now_ms=lambda: 1_000,
        )

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The response as a client of this version decodes it; the newest version served when none is given."""
        assert request.API_KEY is not None
        api = BY_KEY[request.API_KEY]
        version = api.max_version if version is None else version
        context = RequestContext(self._services, api.key, version, 1, "test", "127.0.0.1", "PLAINTEXT", UNUSED)
        decoded, _ = type(request).decode(request.encode(version), 0, version)
        response = import_module(f"tidelog.api.handlers.{api.handler}").handle(context, decoded)
        if asyncio.iscoroutine(response):
            response = await response
        raw = response.encode(version)
        again, end = type(response).decode(raw, 0, version)
        assert end == len(raw)
        return again


def answered(path: Path, use: Callable[[Asker], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        config = BrokerConfig(**settings)
        controller = await sole_node(config)
        try:
            await use(Asker(controller, config))
        finally:
            await stop(controller)

    asyncio.run(run())

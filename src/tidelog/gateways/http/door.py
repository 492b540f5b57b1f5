"""The HTTP door of a node, with all its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.gateways.http import direct, ingest, streams
from tidelog.gateways.http.cors import Cors
from tidelog.gateways.http.listener import HttpListener
from tidelog.gateways.http.openapi import document_routes
from tidelog.gateways.http.proxy import api as proxy
from tidelog.gateways.http.proxy.consumers.instances import ConsumerInstances
from tidelog.gateways.http.proxy.consumers.routes import new_routes as new_consumer_routes
from tidelog.gateways.http.routes import Route, Router
from tidelog.gateways.http.service import HttpService

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.net.network import Network
    from tidelog.net.shared import SharedByListeners

ROUTES: tuple[Route, ...] = (*direct.ROUTES, *streams.ROUTES, *ingest.ROUTES, *proxy.ROUTES)
"""Those that keep nothing between requests."""


def all_routes(consumers: ConsumerInstances) -> tuple[Route, ...]:
    return (*ROUTES, *new_consumer_routes(consumers))


class HttpDoor(HttpListener):
    """The port, and what its clients have left here."""

    def __init__(self, config: BrokerConfig, shared: SharedByListeners, network: Network) -> None:
        self._consumers = ConsumerInstances()
        routes = all_routes(self._consumers)
        service = HttpService(Router((*routes, *document_routes(routes))), Cors(config.http_cors_origins))
        super().__init__(service, shared, network, connections_max=config.max_connections)

    async def close(self) -> None:
        await super().close()
        await self._consumers.close()


def new_http_door(config: BrokerConfig, shared: SharedByListeners, network: Network) -> HttpListener:
    return HttpDoor(config, shared, network)

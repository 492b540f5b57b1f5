"""The HTTP door of a node, with all its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.gateways.http import direct, ingest, streams
from tidelog.gateways.http.cors import Cors
from tidelog.gateways.http.listener import HttpListener
from tidelog.gateways.http.openapi import document_routes
from tidelog.gateways.http.routes import Route, Router
from tidelog.gateways.http.service import HttpService

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.net.network import Network
    from tidelog.net.shared import SharedByListeners

ROUTES: tuple[Route, ...] = (*direct.ROUTES, *streams.ROUTES, *ingest.ROUTES)


def new_http_door(config: BrokerConfig, shared: SharedByListeners, network: Network) -> HttpListener:
    router = Router((*ROUTES, *document_routes(ROUTES)))
    service = HttpService(router, Cors(config.http_cors_origins))
    return HttpListener(service, shared, network, connections_max=config.max_connections)

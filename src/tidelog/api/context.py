"""What a handler may know: the request's own circumstances and the services of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.api.services import Services

if TYPE_CHECKING:
    from tidelog.net.connection import Connection

__all__ = ["RequestContext", "Services"]


class RequestContext:
    """One request: its header and where it came from."""

    __slots__ = (
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "listener_name",
        "peer_host",
        "services",
        "version",
    )

    def __init__(
        self,
        services: Services,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        peer_host: str,
        listener_name: str,
        connection: Connection | None,
    ) -> None:
        self.services = services
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer_host = peer_host
        self.listener_name = listener_name
        self.connection = connection
        """None for a request that another node forwards, or this node puts to itself."""

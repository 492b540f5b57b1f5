"""What a handler may know of a request: its header, its caller, and the services of the node."""

from __future__ import annotations

from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING

from tidelog.api.services import Services
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.net.peer import Peer

if TYPE_CHECKING:
    from tidelog.api.dispatcher import Dispatcher

__all__ = ["Caller", "Origin", "RequestContext", "Services"]


class Origin(Enum):
    CLIENT = "client"
    """A connection of the Kafka protocol. Other nodes have such connections too: their principal tells them apart."""
    NODE = "node"
    """Another node has sent the request on; the caller is the one that asked there."""
    GATEWAY = "gateway"
    """Another door, such as HTTP."""
    OWN = "own"
    """This process."""


class Caller:
    """Where requests come from: one for all requests of a connection."""

    __slots__ = ("connection", "listener_name", "origin", "peer_host", "principal")

    def __init__(
        self,
        origin: Origin,
        peer_host: str,
        listener_name: str,
        principal: Principal = ANONYMOUS,
        connection: Peer | None = None,
    ) -> None:
        """`listener_name` is the listener whose addresses the caller gets."""
        self.origin = origin
        self.peer_host = peer_host
        self.listener_name = listener_name
        self.principal = principal
        self.connection = connection
        """None for requests that came by no connection of this node's."""


class RequestContext:
    """One request: its header and its caller."""

    __slots__ = (
        "api_key",
        "caller",
        "client_id",
        "deadline_s",
        "dispatcher",
        "services",
        "started_s",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        api_key: int,
        version: int,
        client_id: str | None,
        caller: Caller,
        deadline_s: float | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        """For a handler that puts another request to this node, in the same caller's name."""
        self.services: Services = dispatcher.services
        self.api_key = api_key
        self.version = version
        """Of the API: what its caller understands."""
        self.client_id = client_id
        self.caller = caller
        self.started_s = perf_counter()
        self.deadline_s = deadline_s
        """When the caller stops waiting for the answer, by the clock of the event loop. None: it did not say."""
        self.throttle_ms = 0
        """How long the caller is asked to pause. The door says so in the response."""

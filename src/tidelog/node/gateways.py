"""The doors of a node that are no Kafka listeners, each only if its setting names an address."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from tidelog.config.listener import parse_address
from tidelog.metadata.image import Endpoint
from tidelog.net.listener import ListenError, explain_address

if TYPE_CHECKING:
    from tidelog.api.dispatcher import Dispatcher
    from tidelog.config.broker import BrokerConfig
    from tidelog.net.network import Network
    from tidelog.net.shared import SharedByListeners


class Gateway(Protocol):
    """A door whose address is taken."""

    host: str
    port: int

    def serve(self, dispatcher: Dispatcher, listener_name: str) -> None: ...

    async def opened(self) -> None:
        """Returns when clients are answered."""

    def stop_accepting(self) -> None: ...

    async def close(self) -> None: ...


async def bind_gateways(
    config: BrokerConfig, shared: SharedByListeners, network: Network
) -> dict[str, tuple[Gateway, Endpoint]]:
    """By the name under which the cluster knows it. Raises ListenError."""
    opened: dict[str, tuple[Gateway, Endpoint]] = {}
    if config.http_listen is not None:
        http = await _bind_http(config, shared, network)
        opened["HTTP"] = http, _endpoint("HTTP", config.http_advertised, http)
    if config.grpc_listen is not None:
        grpc = _bind_grpc(config)
        opened["GRPC"] = grpc, _endpoint("GRPC", config.grpc_advertised, grpc)
    return opened


def _bind_grpc(config: BrokerConfig) -> Gateway:
    from tidelog.gateways.grpc.door import GrpcDoor

    assert config.grpc_listen is not None
    door = GrpcDoor(*parse_address(config.grpc_listen), max_in_flight=config.grpc_max_in_flight)
    door.bind()
    return door


async def _bind_http(config: BrokerConfig, shared: SharedByListeners, network: Network) -> Gateway:
    assert config.http_listen is not None
    if find_spec("httptools") is None:
        raise ListenError("http.listen: httptools is not installed: pip install 'tidelog[http]'")
    from tidelog.gateways.http.door import new_http_door

    host, port = parse_address(config.http_listen)
    door = new_http_door(config, shared, network)
    try:
        await door.bind(host, port)
    except OSError as error:
        raise ListenError(f"http.listen: {explain_address(host, port, error)}") from error
    return door


def _endpoint(name: str, advertised: str | None, door: Gateway) -> Endpoint:
    """Where clients of the door find it."""
    host, port = (door.host, door.port) if advertised is None else parse_address(advertised)
    return Endpoint(name, host if host not in ("", "0.0.0.0", "::") else socket.gethostname(), port or door.port)

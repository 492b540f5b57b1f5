"""Where clients and other nodes come in: the listeners of a node."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from tidelog.metadata.image import Endpoint
from tidelog.model import limits
from tidelog.model.value import Value
from tidelog.net.listener import Listener, ListenerSettings
from tidelog.net.shared import SharedByListeners
from tidelog.node.closing import Closing, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.api.dispatcher import Dispatcher
    from tidelog.config.broker import BrokerConfig
    from tidelog.net.connection import Dispatch
    from tidelog.node.environment import Environment
    from tidelog.node.gateways import Gateway
    from tidelog.telemetry.metrics import NodeMetrics

ANSWER_SECONDS_MAX = 1.0
"""How long a stop waits for requests that are being answered."""


class Doors(Value):
    """All addresses of the node are taken; connections are accepted once it serves."""

    listeners: tuple[Listener, ...]
    gateways: tuple[Gateway, ...]
    endpoints: tuple[Endpoint, ...]
    """Where clients and other nodes connect to: the advertised addresses, completed by what was really bound. Those of
    listeners come first."""
    shared: SharedByListeners

    @property
    def port(self) -> int:
        """Of the first listener, as bound."""
        return self.listeners[0].port

    @property
    def address(self) -> str:
        return _address(self.listeners[0].host, self.port)

    @property
    def gateway_addresses(self) -> dict[str, str]:
        """As bound, by the names of their flags."""
        names = [endpoint.name.lower() for endpoint in self.endpoints[len(self.listeners) :]]
        return {name: _address(door.host, door.port) for name, door in zip(names, self.gateways, strict=True)}

    async def serve(self, dispatch: Dispatch) -> None:
        for listener in self.listeners:
            await listener.serve(dispatch)

    async def serve_gateways(self, dispatcher: Dispatcher) -> None:
        """Their clients get the addresses of the first listener where they ask for nodes."""
        for gateway in self.gateways:
            gateway.serve(dispatcher, self.listeners[0].settings.name)
        for gateway in self.gateways:
            await gateway.opened()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def bind_doors(config: BrokerConfig, metrics: NodeMetrics, environment: Environment, closing: Closing) -> Doors:
    """Raises ListenError."""
    wanted_bytes = config.queued_max_request_bytes
    budget_bytes = max(
        wanted_bytes if wanted_bytes > 0 else limits.NODE_IN_FLIGHT_BYTES_MAX,
        # The largest frame, its size in front of it, and a byte: a budget that is spent is not read for.
        config.socket_request_max_bytes + limits.FRAME_SIZE_BYTES + 1,
    )
    monotonic_s = environment.system.monotonic_s
    shared = SharedByListeners(metrics, monotonic_s, budget_bytes=budget_bytes)
    listeners: list[Listener] = []

    gateways: dict[str, tuple[Gateway, Endpoint]] = {}

    def stop_accepting() -> None:
        for listener in listeners:
            listener.stop_accepting()
        for gateway, _ in gateways.values():
            gateway.stop_accepting()

    async def close_connections() -> None:
        for listener in listeners:
            listener.close_connections()
        for gateway, _ in gateways.values():
            await gateway.close()

    # Before the first is bound: the address of the second may be taken.
    closing.note(Step.DOORS, stop_accepting)
    closing.note(Step.ANSWERS, lambda: _wait_for_answers(metrics, monotonic_s))
    closing.note(Step.CONNECTIONS, close_connections)
    several = len(config.bound_listeners) > 1
    for wanted in config.bound_listeners:
        settings = ListenerSettings(
            name=wanted.name,
            frame_bytes_max=config.socket_request_max_bytes,
            connections_max=min(config.max_connections, limits.CONNECTIONS_MAX),
            connections_per_host_max=config.max_connections_per_ip,
            is_for_nodes=several and wanted.name == config.inter_broker_listener_name,
            requests_per_connection_max=config.queued_max_requests,
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            idle_s=config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else float("inf"),
        )
        listener = Listener(settings, shared, environment.network)
        await listener.bind(wanted.host, wanted.port)
        listeners.append(listener)
    if config.http_listen is not None or config.grpc_listen is not None:
        from tidelog.node.gateways import bind_gateways

        gateways.update(await bind_gateways(config, shared, environment.network))
    endpoints = (*_endpoints(config, listeners), *(endpoint for _, endpoint in gateways.values()))
    return Doors(tuple(listeners), tuple(gateway for gateway, _ in gateways.values()), endpoints, shared)


def _endpoints(config: BrokerConfig, listeners: list[Listener]) -> tuple[Endpoint, ...]:
    endpoints = []
    for advertised, bound in zip(config.effective_advertised_listeners, listeners, strict=True):
        host = advertised.host if advertised.host not in ("", "0.0.0.0", "::") else socket.gethostname()
        endpoints.append(Endpoint(advertised.name, host, advertised.port or bound.port))
    return tuple(endpoints)


async def _wait_for_answers(metrics: NodeMetrics, monotonic_s: Callable[[], float]) -> None:
    """Otherwise producers whose records are being synced would get no answer."""
    deadline_s = monotonic_s() + ANSWER_SECONDS_MAX
    while metrics.waiting_produces and monotonic_s() < deadline_s:
        await asyncio.sleep(0.005)

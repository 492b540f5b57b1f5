"""What the services of one door have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from tidelog.gateways.grpc.held_members import HeldMembers
from tidelog.gateways.grpc.typed_requests import Join
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.api.context import Services
    from tidelog.gateways.access import LogAccess

ENDPOINT = "GRPC"
"""The name under which a node registers the address of its gRPC door."""

SESSION_TIMEOUT_MS = 10_000
"""Of members that live in the door: they end with their stream, so only the loss of a node takes this long."""
CLIENT_SESSION_TIMEOUT_MS = 30_000
"""Of members that clients keep alive by heartbeats of their own."""
REBALANCE_TIMEOUT_MS = 30_000
"""How long the others wait for a member that does not join again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    services: Services
    max_in_flight: int
    """Records that a subscription has read and its client has not taken."""
    held: HeldMembers = field(default_factory=HeldMembers)
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def now_ms(self) -> int:
        return self.services.now_ms()

    def address_of(self, access: LogAccess, node_id: int | None) -> tuple[str, int] | None:
        """Where the gRPC door of a node is; None if it has none."""
        broker = None if node_id is None else access.image.brokers.get(node_id)
        endpoint = None if broker is None else broker.gateway(ENDPOINT)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def join_request(
        self,
        access: LogAccess,
        group_id: str,
        member_id: str,
        protocols: Sequence[tuple[str, bytes]],
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = CLIENT_SESSION_TIMEOUT_MS,
    ) -> Join:
        config = self.services.config
        session_ms = max(session_timeout_ms, config.group_min_session_timeout_ms)
        return Join(
            group_id,
            member_id,
            instance_id,
            "consumer",
            tuple(protocols),
            min(session_ms, config.group_max_session_timeout_ms),
            REBALANCE_TIMEOUT_MS,
            "grpc",
            f"/{access.caller.peer_host}",
            "" if member_id else str(uuid4()),
            True,
            False,
        )

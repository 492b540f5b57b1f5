"""Where a request goes that another node has to answer: its client is sent there, if that node has an HTTP door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tidelog.gateways.http.messages import HttpError, Request, Response

if TYPE_CHECKING:
    from tidelog.gateways.access import LeaderElsewhere, LogAccess

ENDPOINT: Final = "HTTP"
"""The name under which a node registers the address of its HTTP door."""


def redirect(access: LogAccess, request: Request, elsewhere: LeaderElsewhere) -> Response | None:
    """The client's way to the leader; None where the leader has no HTTP door. Raises HttpError without a leader."""
    if elsewhere.leader is None:
        raise HttpError(503, elsewhere.message, kafka_error=elsewhere.code.name, headers={"Retry-After": "1"})
    broker = access.image.brokers.get(elsewhere.leader)
    endpoint = None if broker is None else broker.gateway(ENDPOINT)
    if endpoint is None or elsewhere.leader == access.node_id:
        return None
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    target = quote(request.path, safe="/%:@!$&'()*+,;=-._~")
    query = f"?{request.query_string}" if request.query_string else ""
    location = f"http://{host}:{endpoint.port}{target}{query}"
    return Response(status=307, content_type="", headers={"Location": location})

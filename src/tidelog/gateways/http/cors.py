"""Which pages of other origins a browser lets read the answers of the HTTP door: none, unless settings name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.gateways.http.messages import Request, Response

ANY: Final = "*"
_NOTHING: Final[Mapping[str, str]] = {}
_SECONDS_REMEMBERED: Final = "600"


class Cors:
    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origins)

    def headers(self, request: Request) -> Mapping[str, str]:
        """What is added to every answer to a page of an allowed origin."""
        if not self._origins:
            return _NOTHING
        origin = request.headers.get("origin")
        if origin is None or not (ANY in self._origins or origin in self._origins):
            return {"Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "Location, Retry-After, X-Tidelog-Session",
            "Vary": "Origin",
        }

    def answer_preflight(self, request: Request, methods: Sequence[str]) -> Response | None:
        if not self._origins or not methods or "access-control-request-method" not in request.headers:
            return None
        allowed = {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": request.headers.get("access-control-request-headers", "Content-Type"),
            "Access-Control-Max-Age": _SECONDS_REMEMBERED,
        }
        return Response(status=204, headers=allowed)

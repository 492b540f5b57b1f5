"""From a request to its answer: its route, its parameters, its handler, and every fault as an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from tidelog.gateways.http.errors import UNEXPECTED, respond_to_fault
from tidelog.gateways.http.messages import Answer, HttpError, Request, Response
from tidelog.gateways.http.routes import Router, read_parameters
from tidelog.model.errors import BrokerError
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.cors import Cors

logger = get_logger("tidelog.http")


class HttpService:
    __slots__ = ("_cors", "_date", "_router")

    def __init__(self, router: Router, cors: Cors) -> None:
        self._router: Final = router
        self._cors: Final = cors
        self._date = ""
        self.refresh_date()

    def refresh_date(self) -> None:
        """Called about once a second, not for each answer."""
        self._date = formatdate(usegmt=True)

    def find_route(self, request: Request) -> None:
        """What is wrong with the request is noted in it: it is answered when its turn comes."""
        try:
            self._router.find(request)
        except HttpError as fault:
            request.fail(fault)

    async def answer(self, access: LogAccess, request: Request) -> Answer:
        """Raises nothing but what ends the task."""
        if request.fault is not None:
            preflight = None
            if request.method == "OPTIONS":
                preflight = self._cors.answer_preflight(request, self._router.methods_of(request.path))
            return preflight or self._respond_to_fault(request, request.fault)
        route = request.route
        assert route is not None, "a request without a fault has a route"
        try:
            return await route.handle(access, request, read_parameters(route, request))
        except (HttpError, BrokerError) as fault:
            return self._respond_to_fault(request, fault)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception_limited("request failed", limit_by=("route",), route=route.name)
            return self._respond_to_fault(request, UNEXPECTED)

    def headers_for(self, request: Request) -> Mapping[str, str]:
        """What is added to every answer."""
        return {"Date": self._date, **self._cors.headers(request)}

    def _respond_to_fault(self, request: Request, fault: HttpError | BrokerError) -> Response:
        route = request.route
        if route is None or route.respond_to_fault is None:
            return respond_to_fault(fault)
        return route.respond_to_fault(fault)

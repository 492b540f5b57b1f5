"""From a typed request to its answer, for every way into a node: permission, forwarding, handler, measurement.

The Kafka listener (`kafka_door.py`), requests that other nodes send on (`forwarding.py`), other doors and tests all
come through here, so they have the same permissions and the same metrics.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from tidelog.api.authorization import authorize_on_cluster
from tidelog.api.context import Caller, RequestContext, Services
from tidelog.api.forwarding import forward_to_controller
from tidelog.api.routes import Route
from tidelog.api.table import BY_KEY
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.later import Later, answer_from


class Dispatcher:
    __slots__ = ("is_open", "routes", "services")

    def __init__(self, services: Services) -> None:
        self.services = services
        self.routes: dict[int, Route] = {}
        """Of the APIs that were asked for already."""
        self.is_open = False
        """Whether clients are answered, not only other nodes."""

    def open(self) -> None:
        self.is_open = True

    async def stop(self) -> None:
        await self.services.tasks.close()

    def find_route(self, api_key: int) -> Route | None:
        route = self.routes.get(api_key)
        if route is None:
            api = BY_KEY.get(api_key)
            if api is not None:
                route = self.routes[api_key] = Route(api, self.services.metrics)
        return route

    # -- answering ---------------------------------------------------------------------------------------------------

    def answer(self, route: Route, context: RequestContext, request: Any) -> Any:
        """The response, a `Later` of it, or None where no answer is owed.

        Raises what is no answer: CloseConnection, and faults of this node.
        """
        if route.is_on_cluster and not authorize_on_cluster(context, route.api.permission):
            denied = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return route.codec.refuse(context, request, denied)
        if route.is_forwarded and not self.services.controller.is_active:
            return answer_from(forward_to_controller(context, request, route.handle), self.services.tasks)
        if route.is_coroutine:
            overlaps_from = route.api.overlaps_from
            overlaps = overlaps_from is not None and context.version >= overlaps_from
            return answer_from(route.handle(context, request), self.services.tasks, overlaps=overlaps)
        try:
            answer = route.handle(context, request)
        except BrokerError as error:
            answer = route.codec.refuse(context, request, error)
        if not isinstance(answer, Later):
            route.duration.observe(perf_counter() - context.started_s)
        return answer

    def settle(self, route: Route, context: RequestContext, request: Any, later: Later[Any]) -> Any:
        """The response of an answer that came later. Raises its fault where that is no answer."""
        route.duration.observe(perf_counter() - context.started_s)
        fault = later.fault
        if fault is None:
            return later.response
        if isinstance(fault, BrokerError) and request is not None:
            return route.codec.refuse(context, request, fault)
        raise fault

    async def call(
        self,
        caller: Caller,
        api_key: int,
        request: Any,
        *,
        version: int | None = None,
        client_id: str | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """The response to a typed request, for doors that are coroutines. `version` is the newest unless given; what is
        not answered by the deadline, in the time of the event loop, raises TimeoutError."""
        route = self.find_route(api_key)
        if route is None:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"there is no API with key {api_key}")
        if not self.is_open and not route.api.between_nodes:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "the node has not started yet")
        version = route.max_version if version is None else version
        context = RequestContext(self, api_key, version, client_id, caller, deadline_s)
        answer = self.answer(route, context, request)
        if not isinstance(answer, Later):
            return answer
        async with asyncio.timeout_at(deadline_s):
            await answer.settled()
        return self.settle(route, context, request, answer)

    async def complete(self, route: Route, context: RequestContext, request: Any) -> Any:
        """The response, however long it takes."""
        answer = self.answer(route, context, request)
        if not isinstance(answer, Later):
            return answer
        await answer.settled()
        return self.settle(route, context, request, answer)

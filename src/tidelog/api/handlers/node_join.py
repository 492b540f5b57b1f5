"""A node asks to be taken into the cluster (private, JSON): any member answers, through the active controller."""

from __future__ import annotations

from typing import Any

from tidelog.api.context import RequestContext


async def handle(context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
    return await context.services.cluster.take_in(request)

"""Heartbeat: a member of a classic group is alive, and learns when it has to rejoin."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.hot_groups import decode_heartbeat as decode_request
from tidelog.protocol.hot_groups import encode_heartbeat_response

if TYPE_CHECKING:
    from tidelog.protocol.hot_groups import HeartbeatFields

__all__ = ["decode_request", "handle"]


def handle(context: RequestContext, request: HeartbeatFields) -> bytes | Coroutine[Any, Any, bytes]:
    group_id, generation, member_id, instance_id = request
    try:
        error, commit = context.services.groups.heartbeat(Heartbeat(group_id, member_id, instance_id, generation))
    except BrokerError as fault:
        return encode_heartbeat_response(context.version, fault.code)
    if commit is not None:
        return _answer_when_committed(context.version, error, commit)
    return encode_heartbeat_response(context.version, error)


async def _answer_when_committed(version: int, error: ErrorCode, commit: Awaitable[None]) -> bytes:
    try:
        await commit
    except BrokerError as fault:
        error = fault.code
    return encode_heartbeat_response(version, error)

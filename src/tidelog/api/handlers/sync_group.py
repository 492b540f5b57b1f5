"""SyncGroup: the leader hands in the assignment, everyone takes theirs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.hot_groups import SYNC_FLEXIBLE_FROM, encode_sync_response
from tidelog.protocol.hot_groups import decode_sync as decode_request

if TYPE_CHECKING:
    from tidelog.protocol.hot_groups import SyncFields

__all__ = ["decode_request", "handle"]

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(context: RequestContext, request: SyncFields) -> bytes | Coroutine[Any, Any, bytes]:
    version = context.version
    group_id, generation, member_id, instance_id, protocol_type, protocol, assignments = request
    if version >= FIRST_VERSION_WITH_PROTOCOL and (protocol_type is None or protocol is None):
        # From this version on the member says what it believes the group has agreed on.
        return _answer(version, Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    sync = Sync(group_id, member_id, instance_id, generation, protocol_type, protocol, assignments)
    try:
        synced, later = context.services.groups.sync(sync)
    except BrokerError as error:
        return _answer(version, Synced(error.code))
    if synced is not None:
        return _answer(version, synced)
    assert later is not None
    return _answer_later(version, later)


async def _answer_later(version: int, later: Coroutine[Any, Any, Synced]) -> bytes:
    try:
        synced = await later
    except BrokerError as error:
        synced = Synced(error.code)
    return _answer(version, synced)


def _answer(version: int, synced: Synced) -> bytes:
    error, protocol_type, protocol, assignment = synced
    if version >= SYNC_FLEXIBLE_FROM:
        return encode_sync_response(version, error, protocol_type, protocol, assignment)
    from tidelog.protocol.generated.sync_group import SyncGroupResponse

    return SyncGroupResponse(error_code=error, assignment=assignment).encode(version)

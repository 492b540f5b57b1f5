"""SyncGroup: the leader hands in the assignment, everyone takes theirs."""

from __future__ import annotations

from typing import Final

from tidelog.api.context import RequestContext
from tidelog.api.parked import reply_when_done
from tidelog.codec.buffers import Buffer
from tidelog.groups.core.messages import Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.reply import PendingReply
from tidelog.protocol.hot_groups import SYNC_FLEXIBLE_FROM, decode_sync, encode_sync_response

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> bytes | PendingReply:
    version = context.version
    group_id, generation, member_id, instance_id, protocol_type, protocol, assignments = decode_sync(
        frame, position, version
    )
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
    return reply_when_done(context, later, lambda synced: _answer(version, synced), lambda error: Synced(error.code))


def _answer(version: int, synced: Synced) -> bytes:
    if version >= SYNC_FLEXIBLE_FROM:
        return encode_sync_response(version, synced.error, synced.protocol_type, synced.protocol, synced.assignment)
    from tidelog.protocol.generated.sync_group import SyncGroupResponse

    return SyncGroupResponse(error_code=synced.error, assignment=synced.assignment).encode(version)

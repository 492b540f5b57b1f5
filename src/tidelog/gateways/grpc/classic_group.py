"""A group of the classic protocol, whose members join, assign and send heartbeats themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.coordinator import GroupAccess
from tidelog.gateways.grpc.typed_requests import Heartbeat, Join, Joined, Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.coordinator import AsMember

ROUND_S: Final = 300.0
"""How long a round may take: it ends when its slowest member has joined or was given up, by default after five minutes
for Kafka's consumers (`max.poll.interval.ms`)."""

SYNC_WITHOUT_PROTOCOL: Final = 4
"""The last version in which a member need not say what the group has agreed on."""

_NO_ANSWER: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})


class ClassicGroup(GroupAccess):
    __slots__ = ()

    async def join(self, request: Join) -> Joined:
        """Waits for the round to be complete. The answer may have an error that the member reacts to."""
        while True:
            joined: Joined = await self._in_round(int(ApiKey.JOIN_GROUP), request)
            if joined.error != ErrorCode.MEMBER_ID_REQUIRED:
                return joined
            request = _as_member(request, joined.member_id)

    async def sync(self, request: Sync) -> Synced:
        """The same for the leader to assign."""
        synced: Synced = await self._in_round(int(ApiKey.SYNC_GROUP), request, SYNC_WITHOUT_PROTOCOL)
        return synced

    async def _in_round(self, api_key: int, request: Join | Sync, version: int | None = None) -> Any:
        """Another node answers within seconds or is asked again, and a round may take longer than all that."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + ROUND_S
        while True:
            try:
                return await self.ask(api_key, request, _error_field, version=version, answer_s=ROUND_S)
            except BrokerError as error:
                if error.code not in _NO_ANSWER or loop.time() > give_up_s:
                    raise

    async def heartbeat(self, member: AsMember) -> ErrorCode:
        request = Heartbeat(self.name, member.member_id, member.instance_id, member.epoch)
        code: ErrorCode = await self.ask(int(ApiKey.HEARTBEAT), request, int)
        return ErrorCode(code)

    async def leave(self, member: AsMember) -> ErrorCode:
        request = LeaveGroupRequest(
            group_id=self.name,
            members=[MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)],
        )
        response: LeaveGroupResponse = await self.ask(
            int(ApiKey.LEAVE_GROUP), request, lambda answer: int(answer.error_code)
        )
        return ErrorCode(response.error_code or (response.members[0].error_code if response.members else 0))


def _as_member(request: Join, member_id: str) -> Join:
    """The same, now with the id that the coordinator has given."""
    return Join(
        request.group_id,
        member_id,
        request.instance_id,
        request.protocol_type,
        request.protocols,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.client_id,
        request.client_host,
        "",
        request.requires_known_member_id,
        request.supports_skipping_assignment,
    )


def _error_field(response: Joined | Synced) -> int:
    return response.error

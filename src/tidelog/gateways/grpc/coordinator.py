"""Requests about a group, put to the node that coordinates it, wherever that is.

A coordinator that has moved or is loading is looked for again, a few seconds long. What else is wrong is a BrokerError.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.gateways.grpc.typed_requests import Heartbeat, Join, Joined, OffsetCommit, Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.hot_offset_commit import TopicAnswer

PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2)
"""Between attempts; longer together than a node that has died is still taken for alive."""
ANSWER_S: Final = 8.0
"""How long a coordinator may take for what does not wait for other members."""
ROUND_S: Final = 300.0
"""How long a round may take: it ends when its slowest member has joined or was given up, by default after five minutes
for Kafka's consumers (`max.poll.interval.ms`)."""

COMMIT_BY_NAME: Final = 9
FETCH_BY_NAME: Final = 9
"""The last versions that name topics; newer ones have topic ids."""
SYNC_WITHOUT_PROTOCOL: Final = 4
"""The last version in which a member need not say what the group has agreed on."""

_GROUP: Final = 0
_TRANSACTION: Final = 1
_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class MemberName(NamedTuple):
    """Who speaks for a group: all empty for a commit outside of any membership."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    """-1: nothing is committed."""
    metadata: str = ""


class Coordinator:
    """Of one group, or of one transactional id."""

    def __init__(self, access: LogAccess, name: str, *, of_transactions: bool = False) -> None:
        self.name: Final = name
        self._access = access
        self._key_type = _TRANSACTION if of_transactions else _GROUP
        self._node_id: int | None = None
        """None: this node is asked first."""

    async def ask(
        self,
        api_key: int,
        request: Any,
        error_of: Callable[[Any], int],
        *,
        version: int | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Any:
        """The coordinator's response, whatever error is in it but that it is no coordinator. All of these requests may
        come twice: a node that gives no answer is asked again, or the one that has taken its place."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                response = await self._access.ask(
                    api_key, request, version=version, timeout_s=timeout_s, at=self._node_id
                )
                code = error_of(response)
            except BrokerError as error:
                code = error.code
                if code == ErrorCode.REQUEST_TIMED_OUT and self._node_id is not None:
                    code = ErrorCode.NOT_COORDINATOR
                elif code not in _ELSEWHERE:
                    raise
            if code not in _ELSEWHERE:
                return response
            pause_s = next(pauses, None)
            if pause_s is None:
                raise BrokerError(ErrorCode(code), f"The coordinator of {self.name} cannot be reached.")
            await asyncio.sleep(pause_s)
            await self._find()

    async def _find(self) -> None:
        request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self.name])
        response: FindCoordinatorResponse = await self._access.ask(int(ApiKey.FIND_COORDINATOR), request)
        [found] = response.coordinators
        if not found.error_code:
            self._node_id = found.node_id
        elif found.error_code not in _ELSEWHERE:
            raise BrokerError(ErrorCode(found.error_code))

    # -- membership --------------------------------------------------------------------------------------------------

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
                return await self.ask(api_key, request, _error_field, version=version, timeout_s=ROUND_S)
            except BrokerError as error:
                if error.code != ErrorCode.NOT_COORDINATOR or loop.time() > give_up_s:
                    raise

    async def heartbeat(self, member: MemberName) -> ErrorCode:
        request = Heartbeat(self.name, member.member_id, member.instance_id, member.generation)
        code: ErrorCode = await self.ask(int(ApiKey.HEARTBEAT), request, int)
        return ErrorCode(code)

    async def leave(self, member: MemberName) -> ErrorCode:
        request = LeaveGroupRequest(
            group_id=self.name,
            members=[MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)],
        )
        response: LeaveGroupResponse = await self.ask(
            int(ApiKey.LEAVE_GROUP), request, lambda answer: int(answer.error_code)
        )
        return ErrorCode(response.error_code or (response.members[0].error_code if response.members else 0))

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def commit(self, member: MemberName, offsets: Sequence[CommittedOffset]) -> None:
        """Raises the first error of any of the partitions."""
        topics: dict[str, list[tuple[int, int, int, str | None]]] = {}
        for each in offsets:
            topics.setdefault(each.topic, []).append((each.partition, each.offset, -1, each.metadata))
        request = OffsetCommit(
            self.name,
            member.generation,
            member.member_id,
            member.instance_id,
            -1,
            [(topic, bytes(16), partitions) for topic, partitions in topics.items()],
        )
        answers: list[TopicAnswer] = await self.ask(
            int(ApiKey.OFFSET_COMMIT), request, _first_error, version=COMMIT_BY_NAME
        )
        for topic, _, partitions in answers:
            for index, code in partitions:
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise BrokerError(ErrorCode(code), f"There is no partition {index} of a topic {topic}.")
                if code:
                    raise BrokerError(ErrorCode(code))

    async def committed(self, partitions: dict[str, list[int]] | None) -> list[CommittedOffset]:
        """Of these partitions; None: of all that have any."""
        if not self.name:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, "A group must be named.")
        group = OffsetFetchRequestGroup(group_id=self.name)
        group.topics = (
            None
            if partitions is None
            else [
                OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in partitions.items()
            ]
        )
        response: OffsetFetchResponse = await self.ask(
            int(ApiKey.OFFSET_FETCH),
            OffsetFetchRequest(groups=[group], require_stable=True),
            lambda answer: int(answer.groups[0].error_code),
            version=FETCH_BY_NAME,
        )
        answered = response.groups[0]
        if answered.error_code:
            raise BrokerError(ErrorCode(answered.error_code))
        found = []
        for topic in answered.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise BrokerError(ErrorCode(each.error_code))
                found.append(
                    CommittedOffset(topic.name, each.partition_index, each.committed_offset, each.metadata or "")
                )
        return found


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


def _first_error(answers: Sequence[TopicAnswer]) -> int:
    return next((code for _, _, partitions in answers for _, code in partitions if code), 0)

"""A member of a consumer group that lives in this door, for a stream that subscribes.

It joins, assigns when it leads, sends heartbeats, and joins again when the group changes: what the consumers of Kafka's
clients do, with the classic protocol, which every kind of member can share a group with.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from tidelog.gateways.coordinator import AsMember
from tidelog.gateways.grpc.assigning import assign
from tidelog.gateways.grpc.classic_group import ClassicGroup
from tidelog.gateways.grpc.consumer_protocol import (
    RANGE,
    ROUND_ROBIN,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from tidelog.gateways.grpc.held_members import HeldMember
from tidelog.gateways.grpc.shared import SESSION_TIMEOUT_MS
from tidelog.gateways.grpc.typed_requests import Joined, Sync
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.consumer_protocol import Assignment
    from tidelog.gateways.grpc.shared import Shared

HEARTBEAT_S: Final = 1.0
LEAVE_S: Final = 1.0
PAUSE_S: Final = 0.05
"""Before it joins again after a round that came to nothing."""

_JOIN_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class Membership:
    def __init__(self, shared: Shared, access: LogAccess, group_id: str, topics: Sequence[str]) -> None:
        self.group: Final = ClassicGroup(access, group_id)
        self._shared = shared
        self._access = access
        self._group_id = group_id
        self._topics = topics
        self._member_id = ""
        self._held: HeldMember | None = None
        self._partition_counts: dict[str, int] | None = None
        """What the assignment was made from, where this member leads."""

    @property
    def generation(self) -> int:
        return -1 if self._held is None else self._held.name.epoch

    async def join(self) -> Assignment:
        """Returns when the member has its partitions. Raises BrokerError for what does not pass."""
        subscription = encode_subscription(self._topics)
        protocols = (RANGE, subscription), (ROUND_ROBIN, subscription)
        while True:
            request = self._shared.join_request(
                self._access, self._group_id, self._member_id, protocols, session_timeout_ms=SESSION_TIMEOUT_MS
            )
            joined = await self.group.join(request)
            error = joined.error
            if not error:
                self._member_id = joined.member_id
                name = AsMember(joined.member_id, joined.generation)
                self._held = HeldMember(self._group_id, name, self._topics)
                self._shared.held.hold(self._held)
                synced = await self.group.sync(await self._sync_request(joined))
                error = synced.error
                if not error:
                    assignment = decode_assignment(synced.assignment)
                    self._shared.held.assign(self._held, assignment)
                    return assignment
            if error in _UNKNOWN:
                self._member_id = ""
            elif error not in _JOIN_AGAIN:
                raise BrokerError(error)
            await asyncio.sleep(PAUSE_S)

    async def _sync_request(self, joined: Joined) -> Sync:
        assignments: list[tuple[str, bytes]] = []
        self._partition_counts = None
        if joined.leader == joined.member_id:
            members = {member: subscribed_topics(metadata) for member, _, metadata in joined.members}
            counts = self._count_partitions(topic for topics in members.values() for topic in topics)
            assigned = assign(joined.protocol or RANGE, members, counts)
            assignments = [(member, encode_assignment(partitions)) for member, partitions in assigned.items()]
            self._partition_counts = counts
        return Sync(self._group_id, joined.member_id, None, joined.generation, None, None, assignments)

    def _count_partitions(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._access.image.topics
        return {topic: len(known[topic].partitions) for topic in sorted(set(topics)) if topic in known}

    async def stay(self) -> None:
        """Returns when the member has to join again."""
        held = self._held
        assert held is not None, "only a member stays"
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            error = await self.group.heartbeat(held.name)
            if error in _UNKNOWN:
                self._member_id = ""
                return
            if error in _JOIN_AGAIN:
                return
            if error:
                raise BrokerError(error)
            counts = self._partition_counts
            if counts is not None and counts != self._count_partitions(counts):
                return

    async def leave(self) -> None:
        """At the end of its stream. Where it cannot be told, the session ends by itself."""
        held = self._held
        if held is None:
            return
        self._shared.held.drop(*held.key)
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.group.leave(held.name)

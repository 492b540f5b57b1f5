"""What a member of a consumer group and its coordinator know of each other, and what they say next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition
from tidelog.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.gateways.access import LogAccess

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
REBALANCE_TIMEOUT_MS: Final = 30_000
"""How long the member may take to give up a partition."""
RETRY_SECONDS: Final = 0.25
"""When a member tries again that cannot read all it was assigned."""
QUICK_BEATS: Final = 10
QUICK_SECONDS: Final = 0.5
"""So many heartbeats follow each other so soon after a change: what others give up comes soon, and they do likewise."""


class Subscription(Value):
    """What a member wants to read: topics by name, or those whose names match a regular expression (RE2)."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class MemberSession:
    __slots__ = (
        "_access",
        "_assigned",
        "_group_id",
        "_interval_s",
        "_must_report",
        "_quick_beats",
        "_says_all",
        "_subscription",
        "epoch",
        "hurry",
        "is_incomplete",
        "member_id",
    )

    def __init__(self, access: LogAccess, group_id: str, subscription: Subscription) -> None:
        self._access = access
        self._group_id = group_id
        self._subscription = subscription
        self._assigned: Mapping[bytes, Collection[int]] = {}
        """Topic ids and partitions that the member should have."""
        self._interval_s = 0.0
        self._quick_beats = 0
        self._says_all = True
        """The coordinator may not know what the member said last, or the member not what the coordinator answered."""
        self._must_report = False
        """What the member has is not what it said last."""
        self.epoch = JOIN_EPOCH
        """Of the member; `JOIN_EPOCH` while the group does not have it."""
        self.hurry: Final = asyncio.Event()
        """Set when the next heartbeat should not wait for its time."""
        self.is_incomplete = False
        """The member does not have all it was assigned yet."""
        self.member_id: Final = access.new_member_id()

    @property
    def wait_s(self) -> float:
        """Until the next heartbeat."""
        if self.is_incomplete:
            return min(RETRY_SECONDS, self._interval_s)
        return min(QUICK_SECONDS, self._interval_s) if self._quick_beats else self._interval_s

    def subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._says_all = True
        self.hurry.set()

    def has_changed(self) -> None:
        """The partitions of the member are others now: the coordinator waits to hear that."""
        self._must_report = True
        self.hurry.set()

    # -- saying --------------------------------------------------------------------------------------------------------

    def new_heartbeat(self, partitions: Collection[TopicPartition]) -> ConsumerHeartbeat:
        """Everything about the member when it joins and after an answer that was lost; else what is new."""
        is_joining = self.epoch == JOIN_EPOCH
        says_all = is_joining or self._says_all
        owned: dict[bytes, tuple[int, ...]] | None = None
        if is_joining:
            owned = {}
        elif says_all or self._must_report:
            owned = self._by_id(partitions)
        subscription = self._subscription
        return ConsumerHeartbeat(
            self._group_id,
            self.member_id,
            self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else -1,
            topics=subscription.topics if says_all else None,
            pattern=(subscription.pattern or "") if says_all else None,
            owned=owned,
            client_id=self._access.client_id or "",
            client_host=f"/{self._access.caller.peer_host}",
        )

    def new_farewell(self) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            self._group_id,
            self.member_id,
            LEAVE_EPOCH,
            client_id=self._access.client_id or "",
            client_host=f"/{self._access.caller.peer_host}",
        )

    def _by_id(self, partitions: Collection[TopicPartition]) -> dict[bytes, tuple[int, ...]]:
        topics = self._access.image.topics
        indexes: dict[bytes, list[int]] = {}
        for name, index in partitions:
            if name in topics:
                indexes.setdefault(topics[name].topic_id, []).append(index)
        return {topic_id: tuple(sorted(found)) for topic_id, found in indexes.items()}

    # -- listening -----------------------------------------------------------------------------------------------------

    def heard(self, reply: HeartbeatReply) -> None:
        is_news = reply.member_epoch != self.epoch or reply.assignment is not None
        self._quick_beats = QUICK_BEATS if is_news else max(0, self._quick_beats - 1)
        self.epoch = reply.member_epoch
        self._interval_s = reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            self._assigned = reply.assignment
        self._must_report = self._says_all = False

    def heard_nothing(self) -> None:
        """The heartbeat may have been taken all the same."""
        self._says_all = True

    def was_fenced(self) -> None:
        """The group goes on without the member, which has lost its partitions and joins again."""
        self.epoch = JOIN_EPOCH
        self._assigned = {}
        self.is_incomplete = False

    def assigned(self) -> set[TopicPartition]:
        by_id = self._access.image.topics_by_id
        # This node may hear of a new topic a moment later than the coordinator.
        self.is_incomplete = any(topic_id not in by_id for topic_id in self._assigned)
        return {
            TopicPartition(by_id[topic_id].name, index)
            for topic_id, indexes in self._assigned.items()
            if topic_id in by_id
            for index in indexes
        }

    def could_not_take_all(self) -> None:
        self.is_incomplete = True


def error_of(reply: HeartbeatReply | BrokerError) -> int:
    """Of the response to a heartbeat."""
    return reply.code if isinstance(reply, BrokerError) else reply.error

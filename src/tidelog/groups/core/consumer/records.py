"""What the log remembers of a consumer group: one record for the group's epoch, three per member, one per pattern.

The values are immutable and shared freely; `encoding.py` gives them Kafka's formats. In every record a missing value is
a tombstone.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.groups.core.consumer.state import STABLE, MemberState
from tidelog.groups.core.messages import Protocols
from tidelog.model.quick_value import QuickValue

Partitions = dict[bytes, tuple[int, ...]]
"""Topic id to partitions, ascending; no topic without any."""

OwnedPartitions = dict[bytes, dict[int, int]]
"""Topic id to partition to the epoch at which the member got it; no topic without any."""
NOTHING_OWNED: Final[OwnedPartitions] = {}

Owners = dict[bytes, dict[int, str]]
"""Topic id to partition to the member that reads it, or has yet to say that it no longer does; no topic without any."""
NO_READERS: Final[dict[int, str]] = {}

LEAVE_EPOCH: Final = -1
"""The epoch in the heartbeat of a member that leaves for good."""
STATIC_LEAVE_EPOCH: Final = -2
"""In the record of a static member that will be back; also its epoch, until another member takes its place."""


class ClassicMember(NamedTuple):
    """How a member of the group that speaks the classic protocol joined."""

    session_timeout_ms: int
    protocols: Protocols


class Subscription(QuickValue):
    """A member as it described itself."""

    __slots__ = (
        "assignor",
        "classic",
        "client_host",
        "client_id",
        "instance_id",
        "pattern",
        "rack_id",
        "rebalance_timeout_ms",
        "topics",
    )

    def __init__(
        self,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topics: tuple[str, ...] = (),
        pattern: str | None = None,
        rebalance_timeout_ms: int = -1,
        assignor: str | None = None,
        classic: ClassicMember | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topics = topics
        """Ascending."""
        self.pattern = pattern
        """A regular expression for further topics."""
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.assignor = assignor
        self.classic = classic
        """None for a member that speaks the consumer protocol."""

    def fields(self) -> tuple[object, ...]:
        client = self.instance_id, self.rack_id, self.client_id, self.client_host
        wishes = self.topics, self.pattern, self.rebalance_timeout_ms, self.assignor
        return *client, *wishes, self.classic


class CurrentAssignment(QuickValue):
    """How far a member has come."""

    __slots__ = ("epoch", "owned", "previous_epoch", "revoking", "state")

    def __init__(
        self,
        epoch: int = 0,
        previous_epoch: int = 0,
        state: MemberState = STABLE,
        owned: OwnedPartitions = NOTHING_OWNED,
        revoking: OwnedPartitions = NOTHING_OWNED,
    ) -> None:
        self.epoch = epoch
        self.previous_epoch = previous_epoch
        self.state = state
        self.owned = owned
        self.revoking = revoking
        """No longer to be read by this member, and not yet by another."""

    @property
    def held(self) -> OwnedPartitions:
        """Partitions that no other member may read yet: those it owns, and those it has still to revoke."""
        if not self.revoking:
            return self.owned
        held = dict(self.owned)
        for topic_id, partitions in self.revoking.items():
            held[topic_id] = dict(sorted({**held.get(topic_id, {}), **partitions}.items()))
        return held

    def fields(self) -> tuple[object, ...]:
        return self.epoch, self.previous_epoch, self.state, self.owned, self.revoking


class GroupEpoch(QuickValue):
    __slots__ = ("epoch", "metadata_hash")

    def __init__(self, epoch: int, metadata_hash: int = 0) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        """Of the topics that the group reads, to see when one of them has changed."""

    def fields(self) -> tuple[object, ...]:
        return self.epoch, self.metadata_hash


class TargetEpoch(QuickValue):
    __slots__ = ("epoch", "timestamp_ms")

    def __init__(self, epoch: int, timestamp_ms: int = 0) -> None:
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms

    def fields(self) -> tuple[object, ...]:
        return self.epoch, self.timestamp_ms


class ResolvedPattern(NamedTuple):
    topics: tuple[str, ...]
    """Ascending."""
    version: int
    """The offset in the metadata log up to which topics were looked at."""
    timestamp_ms: int


V = TypeVar("V")


class _RecordOfGroup(QuickValue, Generic[V]):
    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: V | None) -> None:
        self.group_id = group_id
        self.value = value

    def fields(self) -> tuple[object, ...]:
        return self.group_id, self.value


class _RecordOfMember(QuickValue, Generic[V]):
    __slots__ = ("group_id", "member_id", "value")

    def __init__(self, group_id: str, member_id: str, value: V | None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.value = value

    def fields(self) -> tuple[object, ...]:
        return self.group_id, self.member_id, self.value


class GroupEpochRecord(_RecordOfGroup[GroupEpoch]):
    pass


class TargetEpochRecord(_RecordOfGroup[TargetEpoch]):
    pass


class SubscriptionRecord(_RecordOfMember[Subscription]):
    pass


class TargetRecord(_RecordOfMember[Partitions]):
    pass


class CurrentRecord(_RecordOfMember[CurrentAssignment]):
    pass


class PatternRecord(QuickValue):
    __slots__ = ("group_id", "pattern", "value")

    def __init__(self, group_id: str, pattern: str, value: ResolvedPattern | None) -> None:
        self.group_id = group_id
        self.pattern = pattern
        self.value = value

    def fields(self) -> tuple[object, ...]:
        return self.group_id, self.pattern, self.value


ConsumerGroupRecord = (
    GroupEpochRecord | SubscriptionRecord | TargetEpochRecord | TargetRecord | CurrentRecord | PatternRecord
)

"""What the log remembers of a consumer group: one record for the group's epoch, three per member, one per pattern.

The values are immutable and shared freely; `encoding.py` gives them Kafka's formats. In every record a missing value is
a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.groups.core.consumer.state import MemberState
from tidelog.groups.core.messages import Protocols

Partitions = Mapping[bytes, tuple[int, ...]]
"""Topic id to partitions, ascending; no topic without any."""

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id to partition to the epoch at which the member got it; no topic without any."""

LEAVE_EPOCH: Final = -1
"""What a member's heartbeat bears when it leaves for good."""
STATIC_LEAVE_EPOCH: Final = -2
"""What a static member's bears when it will be back; then also its epoch, until somebody takes its place."""


class ClassicMember(NamedTuple):
    """How a member of the group that speaks the classic protocol joined."""

    session_timeout_ms: int
    protocols: Protocols


class Subscription(NamedTuple):
    """A member as it described itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Ascending."""
    pattern: str | None = None
    """A regular expression for further topics."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None
    """None for a member that speaks the consumer protocol."""


class CurrentAssignment(NamedTuple):
    """How far a member has come."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    owned: OwnedPartitions = {}
    revoking: OwnedPartitions = {}
    """No longer to be read by the member, and not yet by anybody else."""


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0
    """Of the topics that the group reads, to see when one of them has changed."""


class TargetEpoch(NamedTuple):
    epoch: int
    timestamp_ms: int = 0


class ResolvedPattern(NamedTuple):
    topics: tuple[str, ...]
    """Ascending."""
    version: int
    """The offset in the metadata log up to which topics were looked at."""
    timestamp_ms: int


class GroupEpochRecord(NamedTuple):
    group_id: str
    value: GroupEpoch | None


class SubscriptionRecord(NamedTuple):
    group_id: str
    member_id: str
    value: Subscription | None


class TargetEpochRecord(NamedTuple):
    group_id: str
    value: TargetEpoch | None


class TargetRecord(NamedTuple):
    group_id: str
    member_id: str
    value: Partitions | None


class CurrentRecord(NamedTuple):
    group_id: str
    member_id: str
    value: CurrentAssignment | None


class PatternRecord(NamedTuple):
    group_id: str
    pattern: str
    value: ResolvedPattern | None


ConsumerGroupRecord = (
    GroupEpochRecord | SubscriptionRecord | TargetEpochRecord | TargetRecord | CurrentRecord | PatternRecord
)

"""Requests a group core understands and the replies it gives: the wire messages without their versions.

Frequent ones are classes with slots: compiled, they are made and read in a tenth of the time of named tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.model.quick_value import QuickValue

UNKNOWN_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1

Protocols = tuple[tuple[str, bytes], ...]
"""What a member can speak, most wanted first: the protocol's name and the member's metadata for it."""


class Join:
    __slots__ = (
        "client_host",
        "client_id",
        "fresh_id",
        "group_id",
        "instance_id",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "requires_known_member_id",
        "session_timeout_ms",
        "supports_skipping_assignment",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        protocol_type: str,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        client_id: str,
        client_host: str,
        fresh_id: str,
        requires_known_member_id: bool,
        supports_skipping_assignment: bool,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.client_id = client_id
        self.client_host = client_host
        self.fresh_id = fresh_id
        """Becomes the unique part of the member id if this join creates a member."""
        self.requires_known_member_id = requires_known_member_id
        """The client can learn its member id before it becomes a member (JoinGroup 4 and later)."""
        self.supports_skipping_assignment = supports_skipping_assignment
        """JoinGroup 9 and later."""


JoinedMember = tuple[str, str | None, bytes]
"""Member id, instance id and what it said with the protocol that was agreed on."""


class Joined(QuickValue):
    __slots__ = (
        "error",
        "generation",
        "leader",
        "member_id",
        "members",
        "protocol",
        "protocol_type",
        "skip_assignment",
    )

    def __init__(
        self,
        error: ErrorCode,
        member_id: str,
        generation: int = NO_GENERATION,
        protocol_type: str | None = None,
        protocol: str | None = None,
        leader: str = "",
        members: Sequence[JoinedMember] = (),
        skip_assignment: bool = False,
    ) -> None:
        self.error = error
        self.member_id = member_id
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.leader = leader
        self.members = members
        """For the leader only, which assigns; empty for the others."""
        self.skip_assignment = skip_assignment

    def fields(self) -> tuple[object, ...]:
        agreed = self.protocol_type, self.protocol, self.leader
        return self.error, self.member_id, self.generation, *agreed, self.members, self.skip_assignment


class Sync:
    __slots__ = ("assignments", "generation", "group_id", "instance_id", "member_id", "protocol", "protocol_type")

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Sequence[tuple[str, bytes]],
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.assignments = assignments
        """(member id, assignment) from the leader; empty from the others."""


class Synced(QuickValue):
    __slots__ = ("assignment", "error", "protocol", "protocol_type")

    def __init__(
        self,
        error: ErrorCode,
        protocol_type: str | None = None,
        protocol: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.error = error
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.assignment = assignment

    def fields(self) -> tuple[object, ...]:
        return self.error, self.protocol_type, self.protocol, self.assignment


class Heartbeat:
    __slots__ = ("generation", "group_id", "instance_id", "member_id")

    def __init__(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.generation = generation


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None


class Leave(NamedTuple):
    group_id: str
    members: Sequence[LeavingMember]


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class Left(NamedTuple):
    error: ErrorCode
    members: Sequence[LeftMember] = ()


class OffsetToCommit:
    """There is one for every partition of a commit."""

    __slots__ = ("leader_epoch", "metadata", "offset", "partition", "topic", "topic_id")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int = -1,
        metadata: str | None = None,
        topic_id: bytes = ZERO_TOPIC_ID,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.topic_id = topic_id


class Commit:
    __slots__ = (
        "generation",
        "group_id",
        "instance_id",
        "member_id",
        "offsets",
        "reports_missing_group",
        "retention_ms",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: Sequence[OffsetToCommit],
        retention_ms: int = -1,
        reports_missing_group: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.generation = generation
        """Of the member; negative from a consumer that manages its partitions itself and from tools."""
        self.offsets = offsets
        self.retention_ms = retention_ms
        self.reports_missing_group = reports_missing_group

    """OffsetCommit 9 and later know GROUP_ID_NOT_FOUND; before it was ILLEGAL_GENERATION."""


class TransactionalCommit(NamedTuple):
    """Offsets that count when the producer's transaction commits."""

    producer_id: int
    producer_epoch: int
    commit: Commit


class OffsetsToFetch(NamedTuple):
    topic: str
    partitions: Sequence[int]
    topic_id: bytes = ZERO_TOPIC_ID


class FetchOffsets(NamedTuple):
    group_id: str
    topics: Sequence[OffsetsToFetch] | None
    """None: every topic the group has offsets for."""
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class DeleteOffsets(NamedTuple):
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    state: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()

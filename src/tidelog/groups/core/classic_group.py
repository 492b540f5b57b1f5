"""A classic group: its members, the protocol they agreed on, and the requests that wait for a response.

What the log remembers (generation, protocol, leader, members with their assignment, when the state began) and what may
be forgotten (parked requests, pending ids, votes) live side by side; `replay_stored` is how the first half changes for
good. A member that is still joining exists only in the second. Nothing here sends, schedules or writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from tidelog.groups.core.messages import JoinedMember, Protocols
from tidelog.groups.core.records import GroupMetadataRecord, StoredGroup, StoredMember
from tidelog.groups.core.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroupState,
)
from tidelog.model.errors import NO_ERROR, ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_I16: Final = Struct(">h")
_VERSION_AND_COUNT: Final = Struct(">hi")


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_token: int | None = None
        """The parked JoinGroup; changed only through the group, which counts them."""
        self.sync_token: int | None = None
        """The parked SyncGroup."""
        self.is_new = False
        """In its first join: it cannot heartbeat, so waiting does not keep it alive."""

    @property
    def satisfies_heartbeat(self) -> bool:
        """A member that waits for the coordinator need not send heartbeats."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


class ClassicGroup:
    __slots__ = (
        "_subscribed_topics",
        "_subscriptions",
        "arriving",
        "awaiting_join",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_recorded",
        "leader",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "rebalances",
        "state",
        "state_timestamp_ms",
        "static_members",
        "supported",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.previous_state = EMPTY
        self.state_timestamp_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        """None for a group that only commits offsets."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id; holds exactly the members that have an instance id."""
        self.pending_members: set[str] = set()
        """Ids that were handed out (KIP-394) and have not joined yet."""
        self.pending_sync: set[str] = set()
        """Members of the new generation that have not sent SyncGroup."""
        self.awaiting_join = 0
        """How many members have a join token."""
        self.supported: dict[str, int] = {}
        """How many members support each protocol."""
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        """How much longer the initial rebalance may be delayed."""
        self._subscribed_topics: frozenset[str] | None = None
        self._subscriptions: set[bytes] | None = None
        """What the members of the last generation said of it; None when that is read."""
        self.is_recorded = False
        """The log has a record of the group itself, so that its end needs a tombstone."""
        self.rebalances = 0
        """Generations that were formed here; not in the log."""
        self.arriving: dict[str, Member] = {}
        """A static member's successor between the decision to let it in and the replay of its record."""

    def become(self, state: ClassicGroupState, wall_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id!r} cannot go from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        return PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        longest_ms = 0
        for member in self.members.values():
            if member.rebalance_timeout_ms > longest_ms:
                longest_ms = member.rebalance_timeout_ms
        return longest_ms

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def is_forgotten_without_offsets(self) -> bool:
        return self.state is EMPTY and not self.pending_members

    def tombstones(self) -> list[GroupMetadataRecord]:
        return [GroupMetadataRecord(self.group_id, None)]

    def expiry_start_ms(self) -> int | None:
        """When the time of the group's offsets began; -1 for their own commit, None while nothing may expire."""
        if self.protocol_type is None:
            return -1
        if self.state is EMPTY:
            return self.state_timestamp_ms
        return None if self.state is not STABLE or self.subscribed_topics is None else -1

    @property
    def is_forgettable(self) -> bool:
        """The group has no record in the log and no members."""
        return not self.is_recorded and self.state is EMPTY and not self.members and not self.pending_members

    def add(self, member: Member, join_token: int | None) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_members.discard(member.member_id)
        self.park_join(member, join_token)

    def remove(self, member_id: str) -> None:
        """Forgets a member or a pending id; the caller has answered its parked requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            self.park_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, token: int | None) -> int | None:
        """Sets the member's join token and returns the one it had."""
        previous = member.join_token
        member.join_token = token
        self.awaiting_join += (token is not None) - (previous is not None)
        return previous

    def replace_static(self, old: Member, new: Member) -> None:
        """A restarted static member takes the place, and the leadership, of the member id it had before."""
        assert old.instance_id is not None
        self._count_protocols(old, -1)
        self.park_join(old, None)
        self.members = {
            (new.member_id if member_id == old.member_id else member_id): (new if member is old else member)
            for member_id, member in self.members.items()
        }
        self._count_protocols(new, 1)
        self.static_members[old.instance_id] = new.member_id
        self.pending_sync.discard(old.member_id)
        if self.leader == old.member_id:
            self.leader = new.member_id

    def maybe_elect_joined_leader(self) -> bool:
        """Replaces a leader that did not rejoin by a member that did; False when there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return NO_ERROR if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self.supported.get(n, 0) == count for n, _ in protocols)

    def select_protocol(self, replaced: Member | None = None, by: Member | None = None) -> str:
        """Each member votes for its favourite among the protocols that all can speak; the most votes win.

        With `replaced` and `by`, what would be selected if the one took the place of the other.
        """
        if by is None:
            members = list(self.members.values())
            candidates = {name for name, count in self.supported.items() if count == len(members)}
        else:
            members = [by if member is replaced else member for member in self.members.values()]
            candidates = set.intersection(*({name for name, _ in member.protocols} for member in members))
        votes: dict[str, int] = {}
        for member in members:
            for name, _ in member.protocols:
                if name in candidates:
                    votes[name] = votes.get(name, 0) + 1
                    break
        selected, most = "", 0
        for name, count in votes.items():
            if count > most:
                selected, most = name, count
        return selected

    def next_generation(self, wall_ms: int) -> None:
        """All members that are waited for have joined: choose a protocol and wait for the assignment."""
        self.generation += 1
        self.rebalances += 1
        self.protocol = self.select_protocol()
        self._note_subscriptions()
        self.become(COMPLETING_REBALANCE, wall_ms)
        self.pending_sync.clear()

    def joined_members(self) -> list[JoinedMember]:
        return [(m.member_id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()]

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def stored(self, members: Iterable[StoredMember], wall_ms: int) -> StoredGroup:
        return StoredGroup(
            self.protocol_type or "", self.generation, self.protocol, self.leader, wall_ms, tuple(members)
        )

    def replay_stored(self, stored: StoredGroup) -> None:
        """Takes over what a record says; a member it names that is here already keeps what is not in the record:
        parked requests, and the protocols it offers beside the one that was agreed on."""
        members: dict[str, Member] = {}
        for recorded in stored.members:
            member = self.members.get(recorded.member_id) or self.arriving.get(recorded.member_id)
            agreed = (stored.protocol or "", recorded.subscription)
            if member is None or agreed not in member.protocols:
                member = Member(
                    recorded.member_id,
                    recorded.instance_id,
                    recorded.client_id,
                    recorded.client_host,
                    recorded.rebalance_timeout_ms,
                    recorded.session_timeout_ms,
                    (agreed,),
                )
            member.rebalance_timeout_ms = recorded.rebalance_timeout_ms
            member.session_timeout_ms = recorded.session_timeout_ms
            member.assignment = recorded.assignment
            members[recorded.member_id] = member
        self.members = members
        self.arriving.clear()
        self.static_members = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        self.awaiting_join = 0
        self.supported = {}
        for member in members.values():
            if member.join_token is not None:
                self.awaiting_join += 1
            self._count_protocols(member, 1)
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.leader = stored.leader
        self.previous_state = self.state
        self.state = STABLE if members else EMPTY
        self.state_timestamp_ms = stored.state_timestamp_ms
        self._note_subscriptions()
        self.pending_sync.intersection_update(members)
        self.is_recorded = True

    def _count_protocols(self, member: Member, by: int) -> None:
        supported = self.supported
        for name in {name for name, _ in member.protocols}:
            supported[name] = count = supported.get(name, 0) + by
            if count == 0:
                del supported[name]

    def _note_subscriptions(self) -> None:
        """Decoded when it is needed, which is seldom. Most members send the same bytes."""
        self._subscribed_topics = None
        self._subscriptions = None
        if self.uses_consumer_protocol:
            self._subscriptions = {member.metadata(self.protocol) for member in self.members.values()}

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """Of the last generation; None when the coordinator cannot know, because the group does not speak the consumer
        protocol."""
        if self._subscriptions is not None:
            nothing: frozenset[str] = frozenset()
            with suppress(ValueError):
                self._subscribed_topics = nothing.union(*map(decode_subscribed_topics, self._subscriptions))
            self._subscriptions = None
        return self._subscribed_topics


def decode_subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics of a consumer's subscription: the prefix that every version of that format starts with."""
    topics: list[str] = []
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(metadata)
        at = _VERSION_AND_COUNT.size
        if not 0 <= count <= len(metadata):
            raise ValueError(f"a subscription cannot name {count} topics in {len(metadata)} bytes")
        for _ in range(count):
            length = _I16.unpack_from(metadata, at)[0]
            at += 2
            if length < 0 or at + length > len(metadata):
                raise ValueError("a topic name reaches beyond the end of the subscription")
            topics.append(str(metadata[at : at + length], "utf-8"))
            at += length
    except (StructError, UnicodeDecodeError) as error:
        raise ValueError(f"not a consumer subscription: {error}") from error
    return frozenset(topics)

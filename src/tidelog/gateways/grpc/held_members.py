"""The members of groups that this door speaks for: who they are and what they have.

A commit through the door names a group and a partition, no member. It is made as the member that holds the partition,
so that the coordinator refuses it when that member was replaced. Members that are silent are forgotten, the longest
silent first, when there are too many; the coordinator decides by itself when a member is dead.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tidelog.model.limits import GRPC_MEMBERS_HELD_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.gateways.coordinator import AsMember
    from tidelog.gateways.grpc.consumer_protocol import Assignment


class HeldMember:
    __slots__ = ("assignment", "group_id", "member_ids", "name", "topics", "topics_by_member")

    def __init__(self, group_id: str, name: AsMember, topics: Sequence[str]) -> None:
        self.group_id: Final = group_id
        self.name: Final = name
        """Of one generation: when the member has joined again, another object stands for it."""
        self.topics: Final = topics
        self.topics_by_member: Mapping[str, Sequence[str]] = {}
        """Of all members, where this one leads its group."""
        self.member_ids: Mapping[str, str] = {}
        """By the names that clients of `api.Kafka` use, where this one leads its group."""
        self.assignment: Assignment = {}

    def take(self, assignment: Assignment) -> None:
        self.assignment = assignment

    @property
    def key(self) -> tuple[str, str]:
        return self.group_id, self.name.instance_id or self.name.member_id


class HeldMembers:
    def __init__(self, members_max: int = GRPC_MEMBERS_HELD_MAX) -> None:
        self._members_max = members_max
        self._members: OrderedDict[tuple[str, str], HeldMember] = OrderedDict()
        """The longest silent first."""
        self._owners: dict[tuple[str, str, int], HeldMember] = {}
        """By group, topic and partition."""

    def __len__(self) -> int:
        return len(self._members)

    def hold(self, member: HeldMember) -> None:
        """In place of what it was before; it has no partitions yet."""
        self.drop(member.group_id, member.key[1])
        self._members[member.key] = member
        if len(self._members) > self._members_max:
            self.drop(*next(iter(self._members)))

    def assign(self, member: HeldMember, assignment: Assignment) -> None:
        self._release(member)
        member.take(assignment)
        for topic, partitions in assignment.items():
            for partition in partitions:
                self._owners[member.group_id, topic, partition] = member

    def find(self, group_id: str, name: str) -> HeldMember | None:
        """By member id, or by the consumer id that `api.Kafka` uses."""
        member = self._members.get((group_id, name))
        if member is not None:
            self._members.move_to_end((group_id, name))
        return member

    def owner(self, group_id: str, topic: str, partition: int) -> HeldMember | None:
        member = self._owners.get((group_id, topic, partition))
        if member is not None:
            self._members.move_to_end(member.key)
        return member

    def drop(self, group_id: str, name: str) -> None:
        member = self._members.pop((group_id, name), None)
        if member is not None:
            self._release(member)

    def _release(self, member: HeldMember) -> None:
        for topic, partitions in member.assignment.items():
            for partition in partitions:
                place = member.group_id, topic, partition
                if self._owners.get(place) is member:
                    del self._owners[place]

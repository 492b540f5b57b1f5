"""What clients of coordinators are told, as far as checkers care."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class OffsetCommitted(NamedTuple):
    """A client was told that the offset of its group is kept; each group commits once."""

    group: str
    offset: int


class OffsetFetched(NamedTuple):
    """What a coordinator says that a group has committed; -1 for nothing."""

    group: str
    offset: int


class TransactionEnded(NamedTuple):
    values: Mapping[int, bytes]
    """What it wrote, by partition."""
    is_committed: bool | None
    """None when the producer was never told."""


class TransactionsSeen(NamedTuple):
    """Faults are over: all that a consumer sees that reads what is committed."""

    values: Mapping[int, frozenset[bytes]]


class PartitionsOwned(NamedTuple):
    """A coordinator told a member what is its own. The generation is the member's epoch in a group of KIP-848."""

    group: str
    generation: int
    member: str
    partitions: frozenset[int]


class MemberBegan(NamedTuple):
    """A coordinator told a member of this generation how far its group is in a partition it got; -1 for nowhere."""

    group: str
    generation: int
    partition: int
    offset: int


class MemberCommitted(NamedTuple):
    """A member was told that its group is this far; members never ask to go back."""

    group: str
    generation: int
    partition: int
    offset: int


class GroupAudited(NamedTuple):
    """Faults are over and all members are gone: how far the group is."""

    group: str
    partition: int
    offset: int

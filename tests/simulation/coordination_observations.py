"""Answers of coordinators to their clients, as far as checkers need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class OffsetCommitted(NamedTuple):
    """A client got the answer that the offset of its group is kept; each group commits once."""

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
    """None when the producer never got an answer."""


class TransactionsSeen(NamedTuple):
    """Faults are over: all that a consumer sees that reads what is committed."""

    values: Mapping[int, frozenset[bytes]]


class PartitionsOwned(NamedTuple):
    """A coordinator gave a member its assignment. The generation is the member's epoch in a group of KIP-848."""

    group: str
    generation: int
    member: str
    partitions: frozenset[int]


class MemberBegan(NamedTuple):
    """A coordinator gave a member of this generation its group's offset in a partition it got; -1 for none."""

    group: str
    generation: int
    partition: int
    offset: int


class MemberCommitted(NamedTuple):
    """A member got its group's offset; members never ask to go back."""

    group: str
    generation: int
    partition: int
    offset: int


class GroupAudited(NamedTuple):
    """Faults are over and all members are gone: how far the group is."""

    group: str
    partition: int
    offset: int

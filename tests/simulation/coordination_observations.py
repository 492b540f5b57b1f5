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

"""What every subject of the metadata provides: an image that never changes, and a delta that replays records on it.

A new subject (access control, quotas, ...) is one module with both, and one line in `metadata.table`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tidelog.protocol.message import Message


class SubImage(Protocol):
    """One subject of the metadata. Constructed without arguments it is empty."""

    def records(self) -> Iterator[Message]:
        """Replayed on the empty sub-image they make this one again: its part of a snapshot."""


S = TypeVar("S", bound=SubImage)


class SubDelta(ABC, Generic[S]):
    """Records replayed on one sub-image, and what they changed in it.

    Replaying never decides: it does what the record says, and raises UnreadableMetadata when that is impossible. It
    works on copies of what it changes, one copy per delta and not per record; the base stays as it is.
    """

    IMAGE: ClassVar[type[SubImage]]
    REPLAYS: ClassVar[Mapping[type[Message], Callable[[Any, Any], None]]]
    """The records of this subject. A record may belong to several subjects: each takes what concerns it."""
    LEVELS: ClassVar[Mapping[type[Message], int]] = {}
    """Records that older versions cannot replay: the level of `tidelog.version` from which they may be written."""

    __slots__ = ()

    @abstractmethod
    def __init__(self, base: S) -> None: ...

    @abstractmethod
    def apply(self) -> S:
        """The sub-image with every record that was replayed."""

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @classmethod
    @abstractmethod
    def between(cls, before: S, after: S) -> SubDelta[S]:
        """The delta that leads from one sub-image to another, when the records in between are not known."""


K = TypeVar("K")
V = TypeVar("V")


def changed_keys(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    return {key for key in (*before, *after) if before.get(key) != after.get(key)}

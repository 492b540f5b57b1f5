"""Which members were in force from where on.

A configuration counts as soon as its entry is in the log, so a log that is cut may bring an older one back.
"""

from __future__ import annotations

from tidelog.model.value import Value
from tidelog.raft.core.members import NO_MEMBERS, MemberSet

BOOTSTRAP_OFFSET = -1


class Configuration(Value):
    end_offset: int
    """Of its entry, or of the snapshot it was read from; BOOTSTRAP_OFFSET for the one the node was started with."""
    members: MemberSet


class Configurations:
    """Ascending by offset and never empty; the first is committed."""

    __slots__ = ("_history",)

    def __init__(self, first: Configuration) -> None:
        self._history = [first]

    @property
    def current(self) -> Configuration:
        return self._history[-1]

    @property
    def previous(self) -> MemberSet:
        """The members before the current configuration came into force; none if that is not known any more."""
        return self._history[-2].members if len(self._history) > 1 else NO_MEMBERS

    def append(self, end_offset: int, members: MemberSet) -> None:
        assert end_offset > self.current.end_offset, "configurations ascend"
        self._history.append(Configuration(end_offset, members))

    def truncate_to(self, offset: int) -> bool:
        """Whether that changed which one is in force."""
        before = len(self._history)
        while len(self._history) > 1 and self._history[-1].end_offset > offset:
            self._history.pop()
        return len(self._history) != before

    def forget_before(self, offset: int) -> None:
        """The log begins at the offset now: of those before it only the last is needed."""
        while len(self._history) > 1 and self._history[1].end_offset <= offset:
            del self._history[0]

    def at(self, offset: int) -> Configuration:
        """The one in force for a log that ends at the offset."""
        return next((each for each in reversed(self._history) if each.end_offset <= offset), self._history[0])

    def reset(self, end_offset: int, members: MemberSet) -> None:
        self._history = [Configuration(end_offset, members)]

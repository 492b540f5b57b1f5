"""What the quorum feeds: what turns committed records into state (the controller's image)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tidelog.protocol.message import Message


class StateMachine(Protocol):
    """Called on the event loop, one call after the other. Nothing here may wait.

    `apply` and `load_snapshot` raise when the records make no state: the member then takes part no more, for good.
    """

    def apply(self, records: Sequence[Message], end_offset: int, term: int) -> None:
        """These records are committed. They are the records of one proposal, and `end_offset` is the offset after them;
        it moves forward by more than the records where the quorum has records of its own."""
        ...

    def load_snapshot(self, records: Iterable[Message], end_offset: int, term: int) -> None:
        """Begin again: the state below `end_offset` is what these records make of an empty state."""
        ...

    def begin_snapshot(self) -> Callable[[], Iterable[Message]]:
        """The state of now, held still: what is returned is called in another thread and yields the records that make
        this state of an empty one."""
        ...

    def leader_changed(self, leader_id: int, term: int, *, is_active: bool) -> None:
        """`leader_id` leads from now on (-1: none known). `is_active`: it is this node, and everything that was
        committed before has been applied, so that decisions may be taken on the state."""
        ...

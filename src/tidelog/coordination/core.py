"""What a host calls on a core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tidelog.coordination.decision import Decision, Moment


class CoordinatorCore(Protocol):
    """State that is a fold over records, plus what may be lost in a crash (requests that wait, deadlines)."""

    def encode_records(self, records: Sequence[Any]) -> Sequence[tuple[bytes, bytes | None]]:
        """Key and value of each. All of a decision at once: a call from the host costs more than the record itself."""

    def decode_record(self, key: bytes, value: bytes | None) -> Any | None:
        """None for a kind of record this version does not know; raises ValueError for a damaged one."""

    def replay(self, record: Any, offset: int, producer_id: int) -> None:
        """Changes the state and decides nothing: the same when a record is new and when it is loaded."""

    def replay_records(self, records: Sequence[Any], offset: int, producer_id: int) -> None:
        """Replays all records of a decision; the first is at `offset`."""

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None: ...

    def decide_loaded(self, now: Moment) -> Decision[None]:
        """All records are replayed and requests may come: timers start here."""

    def deadline_ms(self) -> int | None:
        """The ticks at which `decide_deadlines` wants to be called."""

    def decide_deadlines(self, now: Moment) -> Decision[None]: ...

    def decide_unloaded(self) -> Decision[None]:
        """This node is no longer the coordinator: every parked request gets its answer."""

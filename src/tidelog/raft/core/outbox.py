"""Persist before answer: what a member says waits here until what it rests on is on disk.

Every message waits for all writes made before it, with one exception: a leader's entries may travel while the leader
itself still syncs them, because its own copy counts only when it is synced. Even they wait for the term they carry.
"""

from __future__ import annotations

from collections import deque

from tidelog.model.value import Value
from tidelog.raft.core.effects import Effect, HardState, Persist, SendAppend, SendSnapshot
from tidelog.raft.core.messages import Entry


class _Write(Value):
    write_id: int
    end_offset: int
    """Of the log once the write is on disk."""


class Outbox:
    """Collects the effects of one step; `finish` hands them out."""

    __slots__ = (
        "_collected",
        "_entries",
        "_hard_state",
        "_hard_state_write_id",
        "_held",
        "_now",
        "_truncate_to",
        "_under_way",
        "_write_id",
        "durable_offset",
        "durable_write_id",
    )

    def __init__(self, durable_offset: int) -> None:
        self.durable_offset = durable_offset
        """The log is on disk up to here."""
        self.durable_write_id = 0
        self._write_id = 0
        self._hard_state_write_id = 0
        """The newest write of a term or vote."""
        self._under_way: deque[_Write] = deque()
        self._held: deque[tuple[int, Effect]] = deque()
        """Effects and the write each waits for, ascending."""
        self._hard_state: HardState | None = None
        self._truncate_to: int | None = None
        self._entries: list[Entry] = []
        self._now: list[Effect] = []
        """Of this step: may be seen at once."""
        self._collected: list[tuple[Effect, bool]] = []
        """Of this step: messages, each with whether it may overtake the writing of entries."""

    # -- during a step ---------------------------------------------------------------------------------------------

    def save(self, hard_state: HardState) -> None:
        self._hard_state = hard_state

    def truncate(self, offset: int) -> None:
        assert not self._entries, "a truncation comes before the entries of its step"
        self._truncate_to = offset if self._truncate_to is None else min(offset, self._truncate_to)
        self.durable_offset = min(self.durable_offset, offset)
        self._under_way = deque(_Write(w.write_id, min(w.end_offset, offset)) for w in self._under_way)

    def write(self, entry: Entry) -> None:
        self._entries.append(entry)

    def tell(self, effect: Effect) -> None:
        """Something the shell may know at once."""
        self._now.append(effect)

    def send(self, effect: Effect, *, overtakes_entries: bool = False) -> None:
        self._collected.append((effect, overtakes_entries))

    # -- its end -----------------------------------------------------------------------------------------------------

    def finish(self, end_offset: int) -> list[Effect]:
        """The effects of the step in the order they are to be carried out. `end_offset`: of the log now."""
        effects: list[Effect] = []
        if self._hard_state is not None or self._truncate_to is not None or self._entries:
            self._write_id += 1
            if self._hard_state is not None:
                self._hard_state_write_id = self._write_id
            self._under_way.append(_Write(self._write_id, end_offset))
            effects.append(Persist(self._write_id, self._hard_state, self._truncate_to, tuple(self._entries)))
            self._hard_state = self._truncate_to = None
            self._entries = []
        effects += self._now
        self._now = []
        waiting: list[tuple[int, Effect]] = []
        for effect, overtakes_entries in self._collected:
            needed = self._hard_state_write_id if overtakes_entries else self._write_id
            if needed <= self.durable_write_id:
                effects.append(effect)
            else:
                waiting.append((needed, effect))
        self._collected.clear()
        if waiting:
            self._held = deque(sorted((*self._held, *waiting), key=lambda each: each[0]))
        return effects

    def persisted(self, write_id: int) -> None:
        """Releases what waited for the writes up to this one."""
        self.durable_write_id = max(self.durable_write_id, write_id)
        while self._under_way and self._under_way[0].write_id <= write_id:
            self.durable_offset = self._under_way.popleft().end_offset
        while self._held and self._held[0][0] <= self.durable_write_id:
            self._now.append(self._held.popleft()[1])

    def drop_appends(self) -> None:
        """The leadership is over: entries named by their place may soon be others."""
        self._held = deque(each for each in self._held if not isinstance(each[1], SendAppend | SendSnapshot))
        self._collected = [each for each in self._collected if not isinstance(each[0], SendAppend | SendSnapshot)]
        self._now = [each for each in self._now if not isinstance(each, SendAppend | SendSnapshot)]

    def installed(self, end_offset: int) -> None:
        """A snapshot took the place of the log: it ends, on disk, at the offset."""
        self.durable_offset = end_offset
        self._under_way = deque(_Write(w.write_id, end_offset) for w in self._under_way)

"""What a simulated member keeps on its disk: term and vote, entries, snapshots."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from tidelog.raft.core.configurations import BOOTSTRAP_OFFSET, Configuration, Configurations
from tidelog.raft.core.effects import HardState
from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.machine import Recovered
from tidelog.raft.core.members import ANY_DIRECTORY, MemberSet
from tidelog.raft.core.messages import Entry, SnapshotId

BEGINNING = SnapshotId(0, 0)


class Snapshot(NamedTuple):
    id: SnapshotId
    members: MemberSet
    digest: int
    """Of all payloads applied below its end."""


class Truncate(NamedTuple):
    offset: int


class TakeSnapshot(NamedTuple):
    snapshot: Snapshot
    log_start_offset: int


class Install(NamedTuple):
    snapshot: Snapshot


@dataclass(slots=True)
class RaftImage:
    hard_state: HardState = field(default_factory=lambda: HardState(0, -1, ANY_DIRECTORY))
    start: SnapshotId = BEGINNING
    """Where the log begins and the term of what is before."""
    entries: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None

    @property
    def end_offset(self) -> int:
        return self.entries[-1].end_offset if self.entries else self.start.end_offset

    def copy(self) -> Self:
        return type(self)(self.hard_state, self.start, list(self.entries), self.snapshot)

    def apply(self, operation: object) -> None:
        match operation:
            case HardState():
                self.hard_state = operation
            case Entry():
                if operation.base_offset >= self.start.end_offset:
                    assert operation.base_offset == self.end_offset, "entries are written without gaps"
                    self.entries.append(operation)
            case Truncate(offset):
                while self.entries and self.entries[-1].end_offset > offset:
                    self.entries.pop()
            case TakeSnapshot(snapshot, log_start_offset):
                self.snapshot = snapshot
                self._begin_at(log_start_offset, snapshot.id)
            case Install(snapshot):
                self.snapshot = snapshot
                self.entries.clear()
                self.start = snapshot.id

    def _begin_at(self, offset: int, snapshot: SnapshotId) -> None:
        """The first entries go, as far as the offset; a log that ends before it begins with the snapshot."""
        if offset > self.end_offset:
            self.entries.clear()
            self.start = snapshot
            return
        count = bisect_right(self.entries, offset, key=lambda entry: entry.end_offset)
        if count:
            self.start = SnapshotId(offset, self.entries[count - 1].term)
            del self.entries[:count]

    def read(self, start: int, end: int) -> tuple[Entry, ...]:
        first = bisect_right(self.entries, start, key=lambda entry: entry.end_offset)
        last = bisect_right(self.entries, end, key=lambda entry: entry.end_offset)
        return tuple(self.entries[first:last])

    def recover(self, bootstrap: MemberSet) -> Recovered:
        snapshot = self.snapshot
        if snapshot is not None and self.end_offset < snapshot.id.end_offset:
            self.entries.clear()
            self.start = snapshot.id
        log = LogIndex(*self.start)
        first = Configuration(BOOTSTRAP_OFFSET, bootstrap)
        if snapshot is not None:
            first = Configuration(snapshot.id.end_offset, snapshot.members)
        configurations = Configurations(first)
        for entry in self.entries:
            log.append(entry.end_offset, entry.term, len(entry.data))
            if entry.members is not None and entry.end_offset > first.end_offset:
                configurations.append(entry.end_offset, entry.members)
        hard_state = self.hard_state
        if log.last_term > hard_state.term:
            hard_state = HardState(log.last_term, -1, ANY_DIRECTORY)
        return Recovered(
            hard_state=hard_state,
            log=log,
            configurations=configurations,
            snapshot=None if snapshot is None else snapshot.id,
        )

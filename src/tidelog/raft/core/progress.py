"""What a leader knows of another member, and how much it may send it."""

from __future__ import annotations

from collections import deque
from enum import Enum

from tidelog.model.value import Value
from tidelog.raft.core.members import Member
from tidelog.raft.core.messages import SnapshotId
from tidelog.raft.core.settings import LONG_AGO_MS


class Pace(Enum):
    PROBE = "probe"
    """Where the logs part is not known: one request at a time, then wait for its response."""
    STREAM = "stream"
    """Where the logs part is known: requests follow one another without waiting, as far as the window allows."""
    SNAPSHOT = "snapshot"
    """The follower needs entries that are gone: it gets parts of a snapshot, one at a time."""


class InFlight(Value):
    request_id: int
    prev_offset: int
    size_bytes: int
    sent_ms: int


class Progress:
    """`0 <= match_offset <= next_offset`."""

    __slots__ = (
        "caught_up_ms",
        "contact_ms",
        "directory_id",
        "in_flight",
        "match_offset",
        "member",
        "next_offset",
        "pace",
        "round",
        "sent_ms",
        "snapshot",
        "snapshot_position",
    )

    def __init__(self, member: Member, next_offset: int, contact_ms: int) -> None:
        self.member = member
        self.pace = Pace.PROBE
        self.match_offset = 0
        """The member's log is the leader's up to here, on disk."""
        self.next_offset = next_offset
        """What is sent next begins here."""
        self.in_flight: deque[InFlight] = deque()
        self.contact_ms = contact_ms
        """When it last answered; a new leader takes its election for an answer."""
        self.caught_up_ms = LONG_AGO_MS
        """When it last had all the leader had."""
        self.sent_ms = LONG_AGO_MS
        self.round = 0
        """The newest round it has answered."""
        self.snapshot: SnapshotId | None = None
        self.snapshot_position = 0
        self.directory_id = member.directory_id
        """As its responses tell."""

    @property
    def in_flight_bytes(self) -> int:
        return sum(each.size_bytes for each in self.in_flight)

    def become_probe(self) -> None:
        """Something was lost or refused: what was sent in good faith is sent again."""
        if self.pace is Pace.STREAM:
            self.next_offset = self.match_offset
        self.pace = Pace.PROBE
        self.in_flight.clear()
        self.snapshot = None

    def become_stream(self) -> None:
        self.pace = Pace.STREAM
        self.in_flight.clear()
        self.snapshot = None
        self.next_offset = self.match_offset

    def become_snapshot(self, snapshot: SnapshotId) -> None:
        self.pace = Pace.SNAPSHOT
        self.in_flight.clear()
        self.snapshot = snapshot
        self.snapshot_position = 0

    def answered(self, request_id: int) -> InFlight | None:
        """Takes the request out of what is under way, and those before it whose responses were lost or are late."""
        found = next((each for each in self.in_flight if each.request_id == request_id), None)
        while found is not None and self.in_flight.popleft() is not found:
            pass
        return found

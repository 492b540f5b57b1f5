"""The follower's end of a fetch session (KIP-227): what a request must name and what the leader remembers. Pure.

The first request of a session names every partition. Later ones name only those whose position changed, and those no
longer wanted. When the leader has forgotten the session, the next request is a first one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PartitionKey = tuple[bytes, int]
"""Topic id and partition."""

NO_SESSION = 0
FIRST_EPOCH = 0
EPOCH_MAX = 0x7FFFFFFF


class FetchPosition(NamedTuple):
    """Where a follower goes on with one partition."""

    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    """Epoch of the last record in its log, -1 when it has none."""


class FetchPlan(NamedTuple):
    session_id: int
    session_epoch: int
    named: dict[PartitionKey, FetchPosition]
    forgotten: list[PartitionKey]


class FollowerSession:
    """One session with one leader; a request is planned only after the last one was answered or failed."""

    __slots__ = ("_id", "_remembered", "epoch")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._remembered: dict[PartitionKey, FetchPosition] = {}
        """What the leader knows, once it has answered."""

    def plan(self, wanted: Mapping[PartitionKey, FetchPosition]) -> FetchPlan:
        """The request that asks for exactly the wanted partitions."""
        if self.epoch == FIRST_EPOCH:
            self._remembered = dict(wanted)
            return FetchPlan(self._id, FIRST_EPOCH, dict(wanted), [])
        remembered = self._remembered
        named = {key: position for key, position in wanted.items() if remembered.get(key) != position}
        forgotten = [key for key in remembered if key not in wanted]
        for key in forgotten:
            del remembered[key]
        remembered.update(named)
        return FetchPlan(self._id, self.epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader answered the last request without an error of the session."""
        if session_id == NO_SESSION:
            # It keeps no sessions for us: every request is a full one.
            self._id = NO_SESSION
            self.restart()
            return
        self._id = session_id
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def restart(self) -> None:
        """The leader refused the session, or it is not known whether the last request has reached it. The next request
        names the old session once more, so that the leader can forget it."""
        self.epoch = FIRST_EPOCH
        self._remembered = {}

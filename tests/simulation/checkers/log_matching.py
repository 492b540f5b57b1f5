"""Log matching: two logs that hold an entry of the same term at the same place hold the same entries before it.

It is enough to look at each entry and the one before it: whatever has the same end and term must be the same entry with
the same one before, in every log, at any time.
"""

from __future__ import annotations

from tests.simulation.observations import Wrote
from tests.simulation.world import Violation

from tidelog.raft.core.messages import LogEnd


class LogMatching:
    def __init__(self) -> None:
        self._entries: dict[LogEnd, tuple[LogEnd, int, object]] = {}

    def observe(self, observation: object) -> None:
        if not isinstance(observation, Wrote):
            return
        entry = observation.entry
        place = LogEnd(entry.term, entry.end_offset)
        content = (observation.before, entry.base_offset, (entry.kind, entry.data, entry.members))
        known = self._entries.setdefault(place, content)
        if known != content:
            raise Violation(f"node {observation.node_id} has {content} at {place}, another log has {known}")

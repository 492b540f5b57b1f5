"""Leader completeness: an entry that was committed in a term is in the log of every leader of a later term."""

from __future__ import annotations

from tests.simulation.observations import BecameLeader, CommitAdvanced
from tests.simulation.world import Violation

from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.messages import LogEnd


class LeaderCompleteness:
    """A member learns of a commit at the earliest in the term it happened in, so its term then is a safe bound."""

    def __init__(self) -> None:
        self._committed: dict[int, LogEnd] = {}
        """By term: the furthest entry that was known to be committed then."""
        self._leaders: dict[int, tuple[int, LogIndex]] = {}
        """By term: the leader and its log when it was elected."""

    def observe(self, observation: object) -> None:
        if isinstance(observation, BecameLeader):
            log = _copy(observation.log)
            self._leaders[observation.term] = (observation.node_id, log)
            for term, last in self._committed.items():
                if term < observation.term:
                    _check(observation.node_id, observation.term, log, last)
        elif isinstance(observation, CommitAdvanced):
            known = self._committed.get(observation.term)
            if known is None or known.offset < observation.last.offset:
                self._committed[observation.term] = observation.last
                for term, (node_id, log) in self._leaders.items():
                    if term > observation.term:
                        _check(node_id, term, log, observation.last)


def _check(node_id: int, term: int, log: LogIndex, last: LogEnd) -> None:
    # What is before the start of a log is in its snapshot, and only what is committed goes into one.
    if last.offset > log.start_offset and log.term_before(last.offset) != last.term:
        raise Violation(
            f"node {node_id} leads in term {term} without the committed entry {last}; its log: {log.log_end}"
        )


def _copy(log: LogIndex) -> LogIndex:
    copy = LogIndex(log.start_offset, log.start_term)
    for term, end_offset in log.entries():
        copy.append(end_offset, term, 1)
    return copy

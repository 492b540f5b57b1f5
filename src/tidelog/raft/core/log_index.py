"""Where the entries of the log are and which term wrote them: all the machine needs to know of the log.

Sixteen bytes per entry since the last snapshot but one; the entries themselves stay on disk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.raft.core.messages import LogEnd

UNKNOWN_TERM = -1


class LogIndex:
    """`start_offset <= end_offset`; terms never descend from one entry to the next."""

    __slots__ = ("_bytes", "_ends", "_run_starts", "_run_terms", "_start_bytes", "start_offset", "start_term")

    def __init__(self, start_offset: int = 0, start_term: int = 0) -> None:
        self.reset(start_offset, start_term)

    def reset(self, start_offset: int, start_term: int) -> None:
        """An empty log that begins at the offset; `start_term` wrote what is before (UNKNOWN_TERM if not known)."""
        self.start_offset = start_offset
        self.start_term = start_term
        self._ends = array("q")
        self._bytes = array("q")
        """Of the log up to the end of each entry, counted from any fixed place."""
        self._start_bytes = 0
        self._run_starts: list[int] = []
        self._run_terms: list[int] = []
        """A run is entries of one term: the offset it begins at, its term."""

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else self.start_offset

    @property
    def last_term(self) -> int:
        return self._run_terms[-1] if self._run_terms else max(self.start_term, 0)

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(self.last_term, self.end_offset)

    def entries(self) -> Iterator[LogEnd]:
        """Term and end of every entry, in order."""
        for end_offset in self._ends:
            yield LogEnd(self.term_before(end_offset), end_offset)

    def append(self, end_offset: int, term: int, size_bytes: int) -> None:
        assert end_offset > self.end_offset, "an entry has records"
        assert term >= self.last_term, "terms do not descend"
        if not self._run_terms or self._run_terms[-1] != term:
            self._run_starts.append(self.end_offset)
            self._run_terms.append(term)
        self._bytes.append((self._bytes[-1] if self._bytes else self._start_bytes) + size_bytes)
        self._ends.append(end_offset)

    def truncate_to(self, offset: int) -> None:
        """Entries that end behind the offset were never there."""
        keep = bisect_right(self._ends, offset)
        del self._ends[keep:]
        del self._bytes[keep:]
        runs = bisect_left(self._run_starts, self.end_offset)
        del self._run_starts[runs:]
        del self._run_terms[runs:]

    def drop_before(self, offset: int) -> None:
        """The log begins later now: at the offset, which is the end of an entry."""
        if offset <= self.start_offset:
            return
        assert offset <= self.end_offset, "a log does not begin behind its end"
        self.start_term = self.term_before(offset)
        drop = bisect_right(self._ends, offset)
        self._start_bytes = self._bytes[drop - 1] if drop else self._start_bytes
        del self._ends[:drop]
        del self._bytes[:drop]
        runs = bisect_right(self._run_starts, offset) - 1
        if runs >= 0:
            del self._run_starts[:runs]
            del self._run_terms[:runs]
            if self._ends:
                self._run_starts[0] = max(self._run_starts[0], offset)
            else:
                self._run_starts.clear()
                self._run_terms.clear()
        self.start_offset = offset

    def term_before(self, offset: int) -> int:
        """The term of the entry that holds the last offset before this one; UNKNOWN_TERM outside the log."""
        if offset <= self.start_offset:
            return self.start_term if offset == self.start_offset else UNKNOWN_TERM
        if offset > self.end_offset:
            return UNKNOWN_TERM
        return self._run_terms[bisect_left(self._run_starts, offset) - 1]

    def matches(self, offset: int, term: int) -> bool:
        """Whether the entry that ends at the offset is of this term; if so, both logs are the same up to it."""
        return term != UNKNOWN_TERM and self.term_before(offset) == term and self._is_end(offset)

    def _is_end(self, offset: int) -> bool:
        if offset == self.start_offset:
            return True
        at = bisect_left(self._ends, offset)
        return at < len(self._ends) and self._ends[at] == offset

    def last_end_before(self, offset: int) -> int:
        """The end of the last entry that ends at the offset or before; the start of the log if there is none."""
        at = bisect_right(self._ends, offset)
        return self._ends[at - 1] if at else self.start_offset

    def last_possible_match(self, offset: int, term: int) -> LogEnd:
        """The furthest end of an entry, not behind `offset`, that a log which has `term` at `offset` can share with
        this one: entries of later terms cannot be in it."""
        end = self.last_end_before(offset)
        run = bisect_right(self._run_terms, term)
        if run < len(self._run_terms):
            end = min(end, self._run_starts[run])
        end = max(end, self.start_offset)
        return LogEnd(self.term_before(end), end)

    def end_within(self, offset: int, bytes_max: int) -> int:
        """The end of the last entry that still fits when entries are taken from `offset` on; one always fits."""
        first = bisect_right(self._ends, offset)
        if first == len(self._ends):
            return offset
        before = self._bytes[first - 1] if first else self._start_bytes
        last = bisect_right(self._bytes, before + bytes_max) - 1
        return self._ends[max(last, first)]

    def bytes_between(self, start: int, end: int) -> int:
        """Both are ends of entries."""
        return self._bytes_up_to(end) - self._bytes_up_to(start)

    def _bytes_up_to(self, offset: int) -> int:
        at = bisect_right(self._ends, offset)
        return self._bytes[at - 1] if at else self._start_bytes

"""How often a line may be logged that a peer can cause at will: a few times, then counted, then the count in one line.

Pure: the clock is an argument. A window begins with the first line of its key and lasts WINDOW_S. Within it
LINES_PER_WINDOW lines are printed and the rest is counted; when it is over, `take_counts` gives what was counted.
Memory and lines are bounded however many peers there are: when the table is full, further keys of the same event share
one window.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_S = 60.0
LINES_PER_WINDOW = 3
KEYS_MAX = 64
"""Of all events together. With three lines and one count per key and minute, this bounds what is written in a day."""

Key = tuple[str, ...]
"""The event first; then what tells its sources apart, for example a reason and a peer."""


class HeldBack(NamedTuple):
    """How many lines of a key were counted instead of printed, within `seconds`."""

    key: Key
    lines: int
    seconds: float
    is_shared: bool
    """Whether they came from several sources, for which the table had no room; then `key` is the event alone."""


class LineLimiter:
    __slots__ = ("_counted_keys", "shared", "windows")

    def __init__(self) -> None:
        self.windows: dict[Key, list[float]] = {}
        """Key -> [when its window began, lines printed, lines counted]; the oldest window first."""
        self.shared: dict[str, list[float]] = {}
        """Event -> the same, for keys that found no room. Events are fixed words of ours, so this stays small."""
        self._counted_keys = 0
        """Windows with a count: while there are none, nothing has to be looked through."""

    @property
    def has_counts(self) -> bool:
        return self._counted_keys > 0

    def admit(self, key: Key, now_s: float) -> tuple[bool, HeldBack | None]:
        """Whether to print the line, and what was counted of this key in a window that is over by now."""
        window = self.windows.get(key)
        if window is None and (len(self.windows) < KEYS_MAX or self._drop_ended(now_s)):
            self.windows[key] = [now_s, 1, 0]
            return True, None
        before: HeldBack | None = None
        if window is None:
            window = self.shared.setdefault(key[0], [now_s, 0, 0])
        if now_s - window[0] >= WINDOW_S:
            if window[2]:
                is_shared = window is self.shared.get(key[0])
                before = HeldBack(key[:1] if is_shared else key, int(window[2]), now_s - window[0], is_shared)
                self._counted_keys -= 1
            window[:] = [now_s, 0, 0]
            if key in self.windows:
                # Behind the others again: the oldest window comes first.
                self.windows[key] = self.windows.pop(key)
        if window[1] < LINES_PER_WINDOW:
            window[1] += 1
            return True, before
        self._counted_keys += not window[2]
        window[2] += 1
        return False, before

    def take_counts(self, now_s: float) -> list[HeldBack]:
        """What was counted in windows that are over; they are forgotten."""
        taken: list[HeldBack] = []
        if not self._counted_keys:
            return taken
        for key, (began_s, _, count) in list(self.windows.items()):
            if now_s - began_s < WINDOW_S:
                break
            del self.windows[key]
            if count:
                taken.append(HeldBack(key, int(count), now_s - began_s, False))
        for event, (began_s, _, count) in list(self.shared.items()):
            if count and now_s - began_s >= WINDOW_S:
                del self.shared[event]
                taken.append(HeldBack((event,), int(count), now_s - began_s, True))
        self._counted_keys -= len(taken)
        return taken

    def _drop_ended(self, now_s: float) -> bool:
        """Makes room: the oldest window goes if it is over and nothing is left to say about it."""
        key = next(iter(self.windows))
        began_s, _, count = self.windows[key]
        if now_s - began_s < WINDOW_S or count:
            return False
        del self.windows[key]
        return True

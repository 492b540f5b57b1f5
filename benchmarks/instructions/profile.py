"""Reads the profiles that callgrind writes, as far as a count needs them: the format is in valgrind's manual."""

from __future__ import annotations

EVENTS = "events: Ir"
"""Instructions read, and nothing else: what callgrind counts unless it simulates caches or branches."""
TOTALS = "totals: "


class UnreadableProfile(Exception):
    """The message says what the profile lacks."""


def read_instructions(text: str) -> int:
    """All instructions that a profile counts."""
    lines = text.splitlines()
    if EVENTS not in lines:
        raise UnreadableProfile(f"the profile has no line {EVENTS!r}: it counts something else, or it is no profile")
    totals = [line.removeprefix(TOTALS) for line in lines if line.startswith(TOTALS)]
    if len(totals) != 1 or not totals[0].isdecimal():
        raise UnreadableProfile(f"the profile has {totals or 'nothing'} where its total should be: it is not complete")
    return int(totals[0])

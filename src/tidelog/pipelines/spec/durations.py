"""Lengths of time as people write them in pipeline files: `10s`, `1h30m`, `500 ms`, `5 minutes`."""

from __future__ import annotations

import re

_WORDS = {
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MS_OF_WORD = {word: _UNIT_MS[unit] for unit, words in _WORDS.items() for word in words}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]+)\s*")
DURATION_MS_MAX = 10 * 366 * 86_400_000


def parse_duration_ms(text: str) -> int:
    """'1h30m' -> 5400000; ValueError names the accepted forms."""
    rest = text.strip().lower()
    if not rest:
        raise ValueError(_refusal(text))
    total = 0.0
    while rest:
        part = _PART.match(rest)
        if part is None or part[2] not in _MS_OF_WORD:
            raise ValueError(_refusal(text))
        total += float(part[1]) * _MS_OF_WORD[part[2]]
        rest = rest[part.end() :]
    if total > DURATION_MS_MAX:
        raise ValueError(f"{text!r} is longer than ten years")
    return round(total)


def _refusal(text: str) -> str:
    return f"{text!r} is no duration: use a number with ms, s, m, h, d or w (30s, 10 minutes, 1h30m)"


def format_duration(duration_ms: float) -> str:
    """5400000 -> '1h30m'; short ones keep their milliseconds."""
    if duration_ms < 1000:
        return f"{duration_ms:.0f}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}".removesuffix(".0") + "s"
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number)

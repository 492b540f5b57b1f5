"""Points in time as people write them, turned into Kafka's milliseconds since 1970.

Accepted: milliseconds (1731751200000), ISO 8601 (2026-11-16, 2026-11-16T10:00:00Z; local time without a zone),
how long ago (500ms, 30s, 10m, 2h, 3d, 1w, and sums such as 1h30m), and `now`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_RELATIVE = re.compile(rf"-?(?:{_PART.pattern})+")


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; ValueError with a line that names the accepted forms."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    if text == "now":
        return now_ms
    if _RELATIVE.fullmatch(text):
        return now_ms - parse_duration_ms(text.removeprefix("-"))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: use ISO 8601 (2026-11-16T10:00:00), milliseconds, or how long ago (10m, 2h, 3d)"
        ) from None
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """'1h30m' -> 5400000."""
    if not _RELATIVE.fullmatch(text) or text.startswith("-"):
        raise ValueError(f"{text!r} is no duration: use a number with ms, s, m, h, d or w (10m, 1h30m)")
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text)))


def format_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; '-' for Kafka's 'no timestamp' and for what no calendar holds."""
    if timestamp_ms < 0:
        return "-"
    try:
        return f"{_format_second(timestamp_ms // 1000)}.{timestamp_ms % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


@lru_cache(maxsize=1024)
def _format_second(seconds: int) -> str:
    """Remembered: the records of a second have most of their time in common, and there may be a million of them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")

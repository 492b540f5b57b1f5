"""Lengths of time in pipeline files."""

from __future__ import annotations

import pytest

from tidelog.pipelines.spec.durations import format_duration, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("10 seconds", 10_000),
        ("1h30m", 5_400_000),
        ("1.5 minutes", 90_000),
        ("2 days 1 hour", 176_400_000),
        ("1W", 604_800_000),
        ("0s", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "10", "s", "10 moons", "-5s", "5s!", "1e9s", "99999 weeks"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration|longer than ten years"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0ms"), (999, "999ms"), (1500, "1.5s"), (60_000, "1m"), (5_405_000, "1h30m5s")]
)
def test_shown_durations(duration_ms: int, text: str) -> None:
    assert format_duration(duration_ms) == text

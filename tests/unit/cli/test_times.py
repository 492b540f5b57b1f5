"""Points in time as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidelog.cli.times import format_time, parse_duration_ms, parse_time

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1731751200000", 1731751200000),
        ("0", 0),
        ("now", NOW_MS),
        ("500ms", NOW_MS - 500),
        ("30s", NOW_MS - 30_000),
        ("10m", NOW_MS - 600_000),
        ("-10m", NOW_MS - 600_000),
        ("2h", NOW_MS - 7_200_000),
        ("1h30m", NOW_MS - 5_400_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("3d", NOW_MS - 3 * 86_400_000),
        ("1w", NOW_MS - 7 * 86_400_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.250+00:00", 1250),
        ("1970-01-01T02:00:00+02:00", 0),
        ("  10m ", NOW_MS - 600_000),
    ],
)
def test_times_that_are_understood(text: str, expected: int) -> None:
    assert parse_time(text, NOW_MS) == expected


def test_without_a_zone_it_is_local_time() -> None:
    assert parse_time("2026-11-16T10:00:00", NOW_MS) == datetime(2026, 11, 16, 10).timestamp() * 1000


@pytest.mark.parametrize("text", ["", "yesterday-ish", "10 minutes", "10x", "2026-13-01", "--10m", "²"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="is no time: use ISO 8601") as raised:
        parse_time(text, NOW_MS)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "-5m", "5", "m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_794_829_718_213, "2026-11-16T11:48:38.213Z"), (-1, "-"), (2**62, str(2**62))],
)
def test_times_are_shown_in_utc(timestamp_ms: int, expected: str) -> None:
    assert format_time(timestamp_ms) == expected


def test_what_is_shown_can_be_given_back() -> None:
    assert parse_time(format_time(1_794_829_718_213), NOW_MS) == 1_794_829_718_213

"""Where `tidelog groups reset-offsets` moves offsets to."""

from __future__ import annotations

import argparse

import pytest

from tidelog.cli.errors import UsageError
from tidelog.cli.main import build_parser, main
from tidelog.cli.reset_offsets import Target, new_offset, parse_target, parse_topic

NOW_MS = 1_800_000_000_000


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser("groups").parse_args(["groups", "reset-offsets", "g", "--all-topics", *arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-earliest"], Target("earliest")),
        (["--to-latest"], Target("latest")),
        (["--to-current"], Target("current")),
        (["--to-offset", "7"], Target("offset", 7)),
        (["--to-offset", "0"], Target("offset", 0)),
        (["--shift-by", "-3"], Target("shift", -3)),
        (["--to-time", "10m"], Target("time", NOW_MS - 600_000)),
    ],
)
def test_targets(arguments: list[str], expected: Target) -> None:
    assert parse_target(parse(*arguments), NOW_MS) == expected


@pytest.mark.parametrize("arguments", [["--to-offset", "-1"], ["--to-time", "soon"]])
def test_targets_that_make_no_sense(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_target(parse(*arguments), NOW_MS)


def test_one_target_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "reset-offsets", "g", "--all-topics"]) == 2
    assert main(["groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--to-earliest"]) == 2
    assert main(["groups", "reset-offsets", "g", "--to-latest"]) == 2
    assert "give --topic or --all-topics" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "committed", "by_time", "expected"),
    [
        (Target("earliest"), 30, -1, 10),
        (Target("latest"), 30, -1, 50),
        (Target("current"), 30, -1, 30),
        (Target("current"), None, -1, 10),
        (Target("current"), 5, -1, 10),
        (Target("offset", 20), None, -1, 20),
        (Target("offset", 5), 30, -1, 10),
        (Target("offset", 99), 30, -1, 50),
        (Target("shift", 5), 30, -1, 35),
        (Target("shift", -50), 30, -1, 10),
        (Target("shift", 50), 30, -1, 50),
        (Target("shift", 3), None, -1, 13),
        (Target("time"), 30, 22, 22),
        (Target("time"), 30, -1, 50),
    ],
)
def test_new_offsets_stay_within_the_log(target: Target, committed: int | None, by_time: int, expected: int) -> None:
    assert new_offset(target, committed, 10, 50, by_time) == expected


def test_topics_and_some_of_their_partitions() -> None:
    assert parse_topic("orders") == ("orders", None)
    assert parse_topic("orders:2,0,2") == ("orders", [0, 2])
    with pytest.raises(UsageError, match="NAME:0,1,2"):
        parse_topic("orders:a")

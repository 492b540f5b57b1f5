"""Arguments and lines of `tidelog produce`."""

from __future__ import annotations

import argparse
import io

import pytest

from tidelog.cli import produce
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.main import build_parser
from tidelog.cli.produce import NewRecord


def parse(*arguments: str) -> argparse.Namespace:
    args = build_parser("produce").parse_args(["produce", *arguments])
    produce.check_arguments(args)
    return args


@pytest.mark.parametrize(
    "arguments",
    [
        ["t", "--key", "k", "--value", "v"],
        ["--value", "v", "--key", "k", "t"],
        ["--key=k", "t", "--value=v"],
        ["-v", "v", "t", "-k", "k"],
    ],
)
def test_key_and_value_wherever_they_stand(arguments: list[str]) -> None:
    args = parse(*arguments)
    with produce.open_source(args) as records:
        assert (args.topic, list(records)) == ("t", [NewRecord(b"k", b"v")])


def test_an_empty_value_is_empty_and_not_missing() -> None:
    with produce.open_source(parse("t", "--value", "")) as records:
        assert list(records) == [NewRecord(None, b"")]


def test_a_tombstone() -> None:
    for flag in ("--null-value", "--tombstone"):
        with produce.open_source(parse("t", "--key", "k", flag)) as records:
            assert list(records) == [NewRecord(b"k", None)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--key", "k", "--key-separator", ":"], "--key and --key-separator"),
        (["--value", "v", "--key-separator", ":"], "for lines"),
        (["--value", "v", "--null-value"], "contradict"),
        (["--key-separator", ""], "must not be empty"),
        (["--partition", "-1"], "must not be negative"),
        (["--timestamp", "0"], "must be positive"),
        (["--idempotent", "--acks", "1"], "needs --acks all"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse("t", *arguments)


def lines(
    content: bytes, key: bytes | None = None, separator: str | None = None, null: bool = False
) -> list[NewRecord]:
    return list(produce.parse_lines(io.BytesIO(content), key, separator, null))


def test_lines_are_records_and_keep_their_bytes() -> None:
    assert lines(b"a\n\n \xff\r\nlast") == [NewRecord(None, value) for value in (b"a", b"", b" \xff\r", b"last")]


def test_a_key_for_all_lines() -> None:
    assert lines(b"1\n2\n", key=b"k") == [NewRecord(b"k", b"1"), NewRecord(b"k", b"2")]


def test_keys_in_lines() -> None:
    assert lines(b"a:1:2\n:x\nb:\n", separator=":") == [
        NewRecord(b"a", b"1:2"),
        NewRecord(b"", b"x"),
        NewRecord(b"b", b""),
    ]
    assert lines(b"a\t1\n", separator="\\t") == [NewRecord(b"a", b"1")]


def test_empty_lines_as_null() -> None:
    assert lines(b"a:\nb:1\n", separator=":", null=True) == [NewRecord(b"a", None), NewRecord(b"b", b"1")]


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(CommandError, match="line 2 has no key separator ':'"):
        lines(b"a:1\nb\n", separator=":")


def test_headers_keep_order_and_repeat() -> None:
    assert produce.parse_headers(["a=1", "a=2", "b=x=y", "c="]) == [("a", b"1"), ("a", b"2"), ("b", b"x=y"), ("c", b"")]
    with pytest.raises(UsageError, match="--header needs NAME=VALUE"):
        produce.parse_headers(["a"])


@pytest.mark.parametrize(
    ("name", "setting"),
    [("murmur2", "murmur2_random"), ("fnv1a", "fnv1a_random"), ("crc32", "consistent_random"), ("round-robin", None)],
)
def test_partitioners_by_the_names_of_librdkafka(name: str, setting: str | None) -> None:
    assert produce.producer_settings(parse("t", "--partitioner", name)).get("partitioner") == setting


def test_round_robin_goes_round() -> None:
    choose = produce.partition_chooser(parse("t", "--partitioner", "round-robin"), [0, 1, 2])
    assert [choose() for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_a_given_partition_beats_the_partitioner() -> None:
    choose = produce.partition_chooser(parse("t", "-p", "2", "--partitioner", "round-robin"), [0, 1, 2])
    assert [choose(), choose()] == [2, 2]

"""Where `tidelog consume` starts and when it is done."""

from __future__ import annotations

import argparse

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from tidelog.cli.consume import Reader, Start, parse_start, start_offset
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.main import build_parser, main
from tidelog.cli.record_format import make_formatter

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("offset", "from_time", "expected"),
    [
        (None, None, None),
        ("earliest", None, Start("earliest")),
        ("Latest", None, Start("latest")),
        ("5", None, Start("offset", 5)),
        ("0", None, Start("offset", 0)),
        ("-5", None, Start("last", 5)),
        (None, "10m", Start("time", NOW_MS - 600_000)),
    ],
)
def test_starts(offset: str | None, from_time: str | None, expected: Start | None) -> None:
    assert parse_start(offset, from_time, NOW_MS) == expected


def test_starts_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="--offset is a number"):
        parse_start("middle", None, NOW_MS)
    with pytest.raises(UsageError, match="--from-time: 'soon' is no time"):
        parse_start(None, "soon", NOW_MS)


def test_a_negative_offset_is_no_option() -> None:
    args = build_parser("consume").parse_args(["consume", "t", "--offset", "-5"])
    assert args.offset == "-5"


def test_offset_and_time_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--offset", "1", "--from-time", "1m"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_a_group_decides_itself_where_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--group", "g", "--offset", "latest"]) == 2
    assert "a group decides" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("start", "by_time", "expected"),
    [
        (Start("earliest"), -1, 10),
        (Start("latest"), -1, 50),
        (Start("offset", 20), -1, 20),
        (Start("last", 5), -1, 45),
        (Start("last", 500), -1, 10),
        (Start("time", 1), 33, 33),
        (Start("time", 1), -1, 50),
    ],
)
def test_start_offsets(start: Start, by_time: int, expected: int) -> None:
    assert start_offset(start, 10, 50, by_time) == expected


def reader(ends: dict[int, int] | None, limit: int | None = None) -> Reader:
    return Reader(argparse.Namespace(topic="t", max=limit, quiet=True), ends)


def record(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=b"%d" % offset, timestamp=(1, 0))


def end_of(partition: int) -> Message:
    return Message(topic="t", partition=partition, error=KafkaError(KafkaError._PARTITION_EOF))


def test_reading_ends_where_the_log_ended_at_the_start(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    reading = reader({0: 2, 1: 1})
    reading.write([record(0, 0), record(1, 0)], make_formatter("raw"))
    assert not reading.is_done
    reading.write([record(0, 1), record(0, 2), record(1, 1)], make_formatter("raw"))
    assert reading.is_done
    assert reading.count == 3
    assert capfdbinary.readouterr().out == b"0\n0\n1\n"


def test_a_gap_before_the_end_is_passed_by(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    reading = reader({0: 5})
    reading.write([record(0, 1), end_of(0)], make_formatter("raw"))
    assert reading.is_done
    past = reader({0: 5})
    past.write([record(0, 1), record(0, 9)], make_formatter("raw"))
    assert (past.is_done, past.count) == (True, 1)


def test_nothing_to_read_is_done_at_once() -> None:
    reading = reader({0: 0, 1: 7})
    reading.leave_out_finished([TopicPartition("t", 0, 0), TopicPartition("t", 1, 6)])
    assert not reading.is_done
    reading.leave_out_finished([TopicPartition("t", 1, 7)])
    assert reading.is_done


def test_following_never_ends_by_itself(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    reading = reader(None)
    reading.write([record(0, 0), end_of(0)], make_formatter("raw"))
    assert not reading.is_done
    assert reader(None, limit=0).is_done


def test_an_error_of_the_broker_ends_the_command() -> None:
    bad = Message(topic="t", partition=3, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(CommandError, match=r"t-3: .*TOPIC_AUTHORIZATION_FAILED"):
        reader({3: 1}).write([bad], make_formatter("raw"))

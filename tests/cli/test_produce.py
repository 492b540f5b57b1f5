"""`tidelog produce` against a real broker, read back with `tidelog consume`."""

from __future__ import annotations

import signal
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import TIDELOG, Command


def read(tidelog: Command, topic: str, *arguments: str) -> list[dict[str, Any]]:
    records = tidelog("consume", topic, "--json", *arguments).json_lines
    return sorted(records, key=lambda record: (record["partition"], record["offset"]))


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["--key", "k", "--value", "v"], "k", "v"),
        (["--value", "v", "--key", "k"], "k", "v"),
        (["--value", "only value"], None, "only value"),
        (["--value", ""], None, ""),
        (["--key", "", "--value", "v"], "", "v"),
        (["--key", "k", "--null-value"], "k", None),
        (["--value=--dashes", "--key=-k"], "-k", "--dashes"),
        (["--value", "grüße, 世界"], None, "grüße, 世界"),
    ],
)
def test_what_was_given_is_what_is_stored(
    tidelog: Command, new_topic: Callable[..., str], arguments: list[str], key: str | None, value: str | None
) -> None:
    topic = new_topic()
    assert tidelog("produce", topic, *arguments).out == f"{topic} partition 0 offset 0\n"
    [record] = read(tidelog, topic)
    assert (record["key"], record["value"]) == (key, value)


def test_options_before_the_topic(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", "--acks", "1", "--key", "k", "--value", "v", topic)
    [record] = read(tidelog, topic)
    assert (record["key"], record["value"]) == ("k", "v")


def test_headers_and_timestamp(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", topic, "-v", "v", "-H", "a=1", "-H", "a=2", "--timestamp", "1700000000123")
    [record] = read(tidelog, topic)
    assert record["headers"] == [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    assert (record["timestamp"], record["timestamp_type"]) == (1700000000123, "CreateTime")


def test_lines_of_standard_input(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    done = tidelog("produce", topic, stdin=b"one\n\nthree")
    assert done.out.splitlines() == [f"{topic} partition 0 offset {offset}" for offset in range(3)]
    assert "3 records" in done.err
    assert [record["value"] for record in read(tidelog, topic)] == ["one", "", "three"]


def test_lines_of_a_file_with_keys(tidelog: Command, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic()
    (tmp_path / "lines").write_bytes(b"a\t1\nb\t\nc\t3\n")
    tidelog("produce", topic, "--file", str(tmp_path / "lines"), "--key-separator", "\\t", "--null-value")
    assert [(record["key"], record["value"]) for record in read(tidelog, topic)] == [
        ("a", "1"),
        ("b", None),
        ("c", "3"),
    ]


def test_an_empty_input_writes_nothing(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert tidelog("produce", topic, stdin=b"").out == ""
    assert read(tidelog, topic) == []


def test_json_reports_every_record(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    values = b"".join(b"%d\n" % number for number in range(500))
    reports = tidelog("produce", topic, "--json", "--partitioner", "round-robin", stdin=values).json_lines
    assert len(reports) == 500
    assert sorted((report["partition"], report["offset"]) for report in reports) == [
        (partition, offset) for partition in range(2) for offset in range(250)
    ]
    assert {report["topic"] for report in reports} == {topic}


def test_many_records(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    values = [f"value {number}" for number in range(50_000)]
    done = tidelog("produce", topic, stdin="\n".join(values).encode())
    assert len(done.out.splitlines()) == 50_000
    assert "50,000 records" in done.err
    assert tidelog("consume", topic, "--format", "raw").out.splitlines() == values


MURMUR2 = {"21": -973932308, "foobar": -790332482, "abc": 479470107, "a-little-bit-long-string": -985981536}
"""Key -> the hash that Kafka's Java client gives it."""


def fnv1a(key: bytes) -> int:
    """The 32-bit hash read as a signed number and made positive, as the Go clients do."""
    number = 0x811C9DC5
    for byte in key:
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return 2**32 - number if number >= 2**31 else number


@pytest.mark.parametrize(
    ("partitioner", "hashes"),
    [
        ("murmur2", {key: value & 0x7FFFFFFF for key, value in MURMUR2.items()}),
        ("fnv1a", {key: fnv1a(key.encode()) for key in MURMUR2}),
        ("crc32", {key: zlib.crc32(key.encode()) for key in MURMUR2}),
    ],
)
def test_partitioners(
    tidelog: Command, new_topic: Callable[..., str], partitioner: str, hashes: dict[str, int]
) -> None:
    topic = new_topic(7)
    lines = "".join(f"{key}:x\n" for key in hashes)
    tidelog("produce", topic, "--key-separator", ":", "--partitioner", partitioner, stdin=lines.encode())
    assert {record["key"]: record["partition"] for record in read(tidelog, topic)} == {
        key: number % 7 for key, number in hashes.items()
    }


def test_round_robin_and_a_given_partition(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    tidelog("produce", topic, "--key", "same", "--partitioner", "round-robin", stdin=b"0\n1\n2\n3\n4\n5\n")
    assert [(record["partition"], record["value"]) for record in read(tidelog, topic)] == [
        (partition, str(number)) for partition in range(3) for number in (partition, partition + 3)
    ]
    assert tidelog("produce", topic, "-p", "2", "-v", "x").out == f"{topic} partition 2 offset 2\n"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressions(tidelog: Command, new_topic: Callable[..., str], compression: str) -> None:
    topic = new_topic()
    values = [f"{number} " + "x" * 200 for number in range(1000)]
    tidelog("produce", topic, "-q", "--compression", compression, stdin="\n".join(values).encode())
    assert tidelog("consume", topic, "--format", "raw").out.splitlines() == values


@pytest.mark.parametrize("arguments", [["--acks", "0"], ["--acks", "1"], ["--acks", "all"], ["--idempotent"]])
def test_acks(tidelog: Command, new_topic: Callable[..., str], arguments: list[str]) -> None:
    topic = new_topic()
    done = tidelog("produce", topic, "-v", "v", *arguments)
    offset = "unknown" if arguments[-1] == "0" else "0"
    assert done.out == f"{topic} partition 0 offset {offset}\n"
    # Without an acknowledgement the record may still be on its way: ask until it is there.
    assert tidelog("consume", topic, "--follow", "--max", "1", "--format", "raw").out == "v\n"


def test_quiet(tidelog: Command, new_topic: Callable[..., str]) -> None:
    assert tidelog("produce", new_topic(), "-q", stdin=b"a\nb\n")[1:] == ("", "")


def test_what_cannot_be_written_is_one_line(tidelog: Command, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic(1, max_message_bytes="1000")
    too_large = tidelog("produce", topic, "--value", "x" * 5000, fails=True)
    assert "1 of 1 records not written" in too_large.err
    assert "MESSAGE_TOO_LARGE" in too_large.err
    assert "has no partition 9" in tidelog("produce", topic, "-v", "x", "-p", "9", fails=True).err
    assert "cannot read" in tidelog("produce", topic, "-f", str(tmp_path / "none"), fails=True).err
    assert tidelog("produce", topic, "-v", "a", "-f", "b", fails=True).code == 2
    assert read(tidelog, topic) == []


def test_a_line_without_a_key_ends_the_input(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    refused = tidelog("produce", topic, "--key-separator", ":", stdin=b"a:1\nb\nc:3\n", fails=True)
    assert "line 2 has no key separator" in refused.err
    assert [record["value"] for record in read(tidelog, topic)] == ["1"]


def test_a_terminal_sees_a_few_records_and_the_summary(
    tidelog: Command, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    (tmp_path / "lines").write_bytes(b"x\n" * 1000)
    shown = tidelog.on_terminal("produce", topic, "--partitioner", "round-robin", "--file", str(tmp_path / "lines"))
    assert len([line for line in shown.splitlines() if line.startswith(f"{topic} partition")]) == 20
    assert "─" in shown
    assert "1,000 records" in shown
    assert ["0", "500", "0", "499"] in [line.split() for line in shown.splitlines()]


def test_records_are_reported_before_the_input_ends(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    process = subprocess.Popen(
        [*TIDELOG, "produce", topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=tidelog.environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"first\nsecond\n")
    process.stdin.flush()
    # The input is still open, and the acknowledgements are reported all the same.
    assert process.stdout.readline() == f"{topic} partition 0 offset 0\n".encode()
    assert process.stdout.readline() == f"{topic} partition 0 offset 1\n".encode()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, b"")

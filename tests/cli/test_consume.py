"""`tidelog consume` against a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.cli.command import TIDELOG, Command, Topics, make_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity

BASE_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def numbers(topics: Topics) -> Iterator[str]:
    """A topic with 0..9 in each of two partitions, the later half a minute younger by their timestamps."""
    topic = make_name("numbers")
    topics.create(topic, 2)
    for partition in range(2):
        topics.fill(topic, partition, [b"%d" % number for number in range(5)], BASE_MS)
        topics.fill(topic, partition, [b"%d" % number for number in range(5, 10)], BASE_MS + 60_000)
    yield topic
    topics.delete([topic])


def values(tidelog: Command, topic: str, *arguments: str) -> list[str]:
    return tidelog("consume", topic, "--format", "raw", *arguments).out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], range(10)),
        (["--offset", "earliest"], range(10)),
        (["--offset", "latest"], []),
        (["--offset", "7"], range(7, 10)),
        (["--offset", "10"], []),
        (["--offset", "-3"], range(7, 10)),
        (["--offset", "-99"], range(10)),
        (["--max", "4"], range(4)),
        (["--offset", "-3", "--max", "1"], [7]),
        (["--max", "0"], []),
        (["--from-time", str(BASE_MS)], range(10)),
        (["--from-time", str(BASE_MS + 1)], range(5, 10)),
        (["--from-time", "2023-11-14T22:14:20Z"], range(5, 10)),
        (["--from-time", "10m"], []),
    ],
)
def test_where_reading_starts_and_ends(tidelog: Command, numbers: str, arguments: list[str], expected: Any) -> None:
    assert values(tidelog, numbers, "--partition", "1", *arguments) == [str(number) for number in expected]


def test_all_partitions_or_some(tidelog: Command, numbers: str) -> None:
    assert sorted(map(int, values(tidelog, numbers))) == sorted([*range(10)] * 2)
    assert len(values(tidelog, numbers, "-p", "0", "-p", "1", "--offset", "-2")) == 4
    assert len(values(tidelog, numbers, "--max", "13")) == 13


def test_formats(tidelog: Command, numbers: str) -> None:
    last = [numbers, "-p", "1", "--offset", "9"]
    assert tidelog("consume", *last).out == "1:9  2023-11-14T22:14:20.000Z  null  9\n"
    assert tidelog("consume", *last, "--format", r"%t-%p-%o %k|%v|%T\n").out == f"{numbers}-1-9 |9|{BASE_MS + 60_000}\n"
    [record] = tidelog("consume", *last, "--json").json_lines
    assert record == {
        "topic": numbers,
        "partition": 1,
        "offset": 9,
        "timestamp": BASE_MS + 60_000,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": "9",
        "headers": [],
    }


def test_following_sees_what_is_written_later(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", topic, "-v", "before")
    process = tidelog.start("consume", topic, "--follow", "--max", "2", "--format", "raw")
    try:
        assert process.stdout.readline() == b"before\n"
        tidelog("produce", topic, "-v", "after")
        out, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, errors) == (0, b"after\n", b"")


def test_an_interrupt_ends_following_quietly(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", topic, "-v", "x")
    process = tidelog.start("consume", topic, "--follow", "--format", "raw")
    try:
        assert process.stdout.readline() == b"x\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, errors) == (130, b"", b"")


def test_a_reader_that_has_seen_enough(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", topic, "-q", stdin=b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 20_000)
    process = tidelog.start("consume", topic, "--format", "raw")
    assert process.stdout is not None
    assert process.stderr is not None
    assert os.read(process.stdout.fileno(), 3) == b"xxx"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), errors) == (0, b"")


def test_reading_ends_though_writing_goes_on(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tidelog("produce", topic, "-v", "first")
    stop = threading.Event()
    process = subprocess.Popen([*TIDELOG, "produce", topic, "-q"], stdin=subprocess.PIPE, env=tidelog.environment)

    def feed() -> None:
        assert process.stdin is not None
        while not stop.wait(0.001):
            process.stdin.write(b"more\n")
            process.stdin.flush()
        process.stdin.close()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        assert values(tidelog, topic)[0] == "first"
    finally:
        stop.set()
        thread.join()
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--offset", "11"], 1, "has no offset 11; it has 0 to 10"),
        (["--partition", "5"], 1, "has no partition 5; it has 2"),
        (["--offset", "middle"], 2, "--offset is a number"),
        (["--from-time", "soon"], 2, "is no time"),
        (["--format", "%z"], 2, "knows no %z"),
        (["--max", "-1"], 2, "must not be negative"),
    ],
)
def test_what_cannot_be_read(tidelog: Command, numbers: str, arguments: list[str], code: int, complaint: str) -> None:
    refused = tidelog("consume", numbers, *arguments, fails=True)
    assert refused.code == code
    assert complaint in refused.err


def test_a_topic_that_is_not_there_is_not_made_by_looking(tidelog: Command, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert f"topic {name} does not exist" in tidelog("consume", name, fails=True).err
    assert name not in [topic["name"] for topic in tidelog("topics", "list", "--json").json]


def test_a_group_goes_on_where_it_was(tidelog: Command, numbers: str, new_name: Callable[[], str]) -> None:
    group = new_name()
    first = tidelog("consume", numbers, "--group", group, "--max", "7", "--json")
    second = tidelog("consume", numbers, "--group", group, "--json")
    read = [(record["partition"], record["offset"]) for record in first.json_lines + second.json_lines]
    assert len(first.json_lines) == 7
    assert sorted(read) == [(partition, offset) for partition in range(2) for offset in range(10)]
    assert f"group {group}: assigned 0, 1; owns 0, 1" in second.err
    assert tidelog("consume", numbers, "--group", group, "-q")[1:] == ("", "")


class Member:
    """`tidelog consume --group --follow` in the background, and what it has said so far."""

    def __init__(self, tidelog: Command, topic: str, group: str, *arguments: str) -> None:
        command = [*TIDELOG, "consume", topic, "--group", group, "--follow", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=tidelog.environment
        )
        self._prefix = f"group {group}: "
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self.said += (line.strip().removeprefix(self._prefix) for line in lines)

    def wait_for(self, *expected: str) -> None:
        """All it has said since it started, as far as it goes."""
        try:
            wait_until(lambda: len(self.said) >= len(expected), f"it says {expected}", 45, interval_s=0.05)
        finally:
            assert self.said[: len(expected)] == list(expected)[: len(self.said)]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._thread.join(10)


def test_a_member_says_what_it_gives_up(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    first = Member(tidelog, topic, group, "--protocol", "consumer")
    try:
        first.wait_for("assigned 0, 1; owns 0, 1")
        second = Member(tidelog, topic, group, "--protocol", "consumer")
        try:
            wait_until(lambda: any(said.startswith("revoked") for said in first.said), "it gives one up", 45)
            revoked = next(said for said in first.said if said.startswith("revoked"))
            assert revoked in ("revoked 0; owns 1", "revoked 1; owns 0")
        finally:
            second.stop()
        wait_until(lambda: first.said[-1].endswith("owns 0, 1"), "it has both again", 45)
    finally:
        first.stop()
    assert first.said[-1] == "revoked 0, 1; owns nothing"


def test_a_member_says_what_it_has_lost(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(), new_name()
    member = Member(tidelog, topic, group, "--protocol", "classic")
    try:
        member.wait_for("assigned 0; owns 0")
        with Connection(int(tidelog.bootstrap.rpartition(":")[2])) as connection:
            # As when it was away for longer than its session.
            [described] = connection.call(DescribeGroupsRequest(groups=[group]), 5).groups
            identity = MemberIdentity(member_id=described.members[0].member_id)
            assert connection.call(LeaveGroupRequest(group_id=group, members=[identity]), 5).error_code == 0
        member.wait_for("assigned 0; owns 0", "lost 0; owns nothing", "assigned 0; owns 0")
    finally:
        member.stop()

"""Closed streams, SIGINT and SIGTERM: nothing is left behind, and no traceback."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.cli.command import COMMAND_SECONDS_MAX, TIDELOG, Command
from tests.waiting import wait_until

from tidelog import Broker

DEADLINE_S = 30.0


@pytest.mark.parametrize(
    ("arguments", "closed"),
    [
        ("produce streams-closed", "<&-"),
        ("topics list", ">&-"),
        ("consume streams-closed", ">&-"),
        ("topics list", "2>&-"),
    ],
)
def test_a_closed_stream_is_like_dev_null(tidelog: Command, arguments: str, closed: str) -> None:
    tidelog("topics", "create", "streams-closed", "--if-not-exists")
    done = subprocess.run(
        ["sh", "-c", f"exec {' '.join(TIDELOG)} {arguments} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=tidelog.environment,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def bench_topics(tidelog: Command) -> set[str]:
    return {
        topic["name"] for topic in tidelog("topics", "list", "--json").json if topic["name"].startswith("tidelog-bench")
    }


@pytest.mark.parametrize(
    ("case", "number", "code"),
    [
        ("produce", signal.SIGINT, 130),
        ("produce", signal.SIGTERM, 143),
        ("single", signal.SIGINT, 130),
        ("end-to-end", signal.SIGINT, 130),
    ],
)
def test_an_interrupted_bench_leaves_no_topic(tidelog: Command, case: str, number: int, code: int) -> None:
    before = bench_topics(tidelog)
    process = tidelog.start(
        "bench", "--case", case, "--records", "50000000", "--singles", "50000000", "--seconds", "600"
    )
    try:

        def is_measuring() -> bool:
            made = bench_topics(tidelog) - before
            return any(
                topic["offsets"]
                for name in made
                for topic in tidelog("topics", "describe", name, "--json").json[0]["partitions"]
            )

        wait_until(is_measuring, "the first records")
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (code, b"", b"")
    assert bench_topics(tidelog) == before


def test_a_member_that_is_terminated_leaves_its_group(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(), new_name()
    tidelog("produce", topic, stdin=b"a\nb\n")
    process = tidelog.start("consume", topic, "--group", group, "--follow", "--format", "raw")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    [described] = tidelog("groups", "describe", group, "--json").json
    assert (described["state"], described["lag"]) == ("empty", 0)


def test_who_waits_is_told_that_nobody_answers() -> None:
    with Broker() as broker:
        broker.create_topic("left-alone")
        process = Command(broker.bootstrap_servers).start("consume", "left-alone", "--follow", "--format", "raw")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("left-alone", b"here")
        assert producer.flush(DEADLINE_S) == 0
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"no broker answers; waiting for one\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE_S) == (b"", b"")
    finally:
        process.kill()
    assert process.returncode == 130

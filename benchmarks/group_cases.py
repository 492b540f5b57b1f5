"""The cases of group coordinators: many groups, one large group, commits, and the replay of commits at a start.

Classic groups wait `group.initial.rebalance.delay.ms` for more members before their first generation. That is the same
time on every broker, so both run with 0 here; what is left is work.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.broker_process import BrokerProcess
from tests.servers.group_requests import commit_request, wait_until_loaded
from tests.servers.wire import Connection, ConnectionLost, connect_when_listening

from benchmarks.group_client import HEARTBEAT_ROUNDS, TIMEOUT_S, committed_offsets
from benchmarks.load_cases import SETTLE_S, Figures, LoadCase, Run
from benchmarks.start_case import Spawn, create_topic, write_to_each

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
LARGE_TOPIC = ("groups-large", 1000)
SMALL_TOPIC = ("groups-small", 10)
MANY = 1000
LARGE = 500
COMMITS = 40_000
REPLAY = "groups-replay"
REPLAY_GROUPS = 50
REPLAY_COMMITS = 20
"""Of every group, each of all partitions of the large topic: a million records."""
RETRY_S = 0.005

_numbers = itertools.count()


def require_topic(port: int, topic: tuple[str, int]) -> str:
    """Created when it is not there yet, and writable."""
    name, partitions = topic
    with Connection(port, timeout_s=TIMEOUT_S) as connection:
        create_topic(connection, name, partitions)
        write_to_each(connection, name, range(partitions))
    return name


class _Client:
    """A process of benchmarks/group_client.py, phase by phase."""

    def __init__(self, broker: BrokerProcess, process: subprocess.Popen[str]) -> None:
        self._broker = broker
        self._process = process

    def read(self, phase: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise RuntimeError(f"the groups' client against {self._broker.kind} failed: {errors[-3000:]}")
        figures: dict[str, Any] = json.loads(line)
        assert figures["phase"] == phase, figures
        return figures

    def run(self, phase: str) -> tuple[float, float]:
        """Seconds and CPU seconds of the broker in the phase that ends so."""
        assert self._process.stdin is not None
        before = self._broker.cpu_seconds()
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds = float(self.read(phase).get("seconds", 0))
        time.sleep(SETTLE_S)
        return seconds, self._broker.cpu_seconds() - before


@contextmanager
def group_client(broker: BrokerProcess, kind: str, topic: str, *options: str) -> Iterator[_Client]:
    fixed = ("--port", str(broker.port), "--topic", topic, "--prefix", f"bench-{next(_numbers)}")
    command = [sys.executable, "-m", "benchmarks.group_client", kind, *fixed, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            client = _Client(broker, process)
            client.read("connected")
            yield client
        finally:
            process.kill()


def members_case(name: str, protocol: str, groups: int, members: int, topic: tuple[str, int]) -> Run:
    """Until all members have a stable assignment; then the cost of their heartbeats."""

    def run(broker: BrokerProcess, share: float) -> Figures:
        del share
        options = ("--protocol", protocol, "--groups", str(groups), "--members", str(members))
        with group_client(broker, "members", require_topic(broker.port, topic), *options) as client:
            stable_s, stable_cpu_s = client.run("stable")
            beat_s, beat_cpu_s = client.run("beaten")
            client.run("left")
        beats = groups * members * HEARTBEAT_ROUNDS
        figures = {"stable_s": stable_s, "stable_cpu_s": stable_cpu_s, "beat_cpu_us": beat_cpu_s / beats * 1e6}
        return {f"{name}.{key}": value for key, value in (figures | {"beat_rate": beats / beat_s}).items()}

    return run


def commits(broker: BrokerProcess, share: float) -> Figures:
    """Fifty consumers commit ten partitions each, again and again."""
    count = int(COMMITS * share)
    topic = require_topic(broker.port, SMALL_TOPIC)
    with group_client(broker, "commits", topic, "--commits", str(count)) as client:
        seconds, cpu_s = client.run("committed")
    return {"groups-commits.rate": count / seconds, "groups-commits.cpu_us": cpu_s / count * 1e6}


def measure_replay(spawn: Spawn) -> Figures:
    """A million commits, a clean stop, and the start until every group's offsets are known again."""
    groups = [f"replay-{number}" for number in range(REPLAY_GROUPS)]
    with spawn() as broker:
        topic = _fill(broker, groups)
        broker.stop(TIMEOUT_S)
    started = time.perf_counter()
    with spawn() as broker:
        _wait_committed(broker, groups, topic)
        seconds = time.perf_counter() - started
        return {f"{REPLAY}.start_s": seconds, f"{REPLAY}.cpu_s": broker.cpu_seconds()}


def _fill(broker: BrokerProcess, groups: list[str]) -> str:
    connect_when_listening(broker.port, TIMEOUT_S).close()
    topic = require_topic(broker.port, LARGE_TOPIC)
    with Connection(broker.port, timeout_s=TIMEOUT_S) as connection:
        wait_until_loaded(connection, groups)
        for offset in range(1, REPLAY_COMMITS + 1):
            for group in groups:
                answer = connection.call(commit_request(group, topic, LARGE_TOPIC[1], offset), 9)
                assert all(partition.error_code == 0 for partition in answer.topics[0].partitions)
    return topic


def _wait_committed(broker: BrokerProcess, groups: list[str], topic: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with connect_when_listening(broker.port, TIMEOUT_S) as connection:
                while any(offset != REPLAY_COMMITS for offset in committed_offsets(connection, groups, topic)):
                    assert time.monotonic() < deadline, "the offsets are not there"
                    time.sleep(RETRY_S)
                return
        except ConnectionLost:
            # A broker may take connections before it is ready to keep them.
            assert broker.alive(), broker.log_text()[-2000:]
            time.sleep(RETRY_S)


GROUP_CASES = (
    LoadCase("groups-many-classic", members_case("groups-many-classic", "classic", MANY, 1, SMALL_TOPIC)),
    LoadCase("groups-many-consumer", members_case("groups-many-consumer", "consumer", MANY, 1, SMALL_TOPIC)),
    LoadCase("groups-large-classic", members_case("groups-large-classic", "classic", 1, LARGE, LARGE_TOPIC)),
    LoadCase("groups-large-consumer", members_case("groups-large-consumer", "consumer", 1, LARGE, LARGE_TOPIC)),
    LoadCase("groups-commits", commits),
)

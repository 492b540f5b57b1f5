"""Workers of one group copy in transactions while they, or the node, are killed or stand still: exactly once.

Who was taken for dead must not commit what another has taken over: its generation, or its epoch, is an old one.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from tests.conformance.transactions.producer import new_group
from tests.faults.conftest import Node
from tests.faults.load import SteadyLoad
from tests.faults.test_transactions import WORKER, read_committed
from tests.faults.transactional_worker import SHARED_SESSION_MS
from tests.servers.topics import create_topic
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

PARTITIONS = 4
SETTINGS = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "500",
    "group_min_session_timeout_ms": str(SHARED_SESSION_MS),
    "group_initial_rebalance_delay_ms": "100",
    "group_consumer_min_session_timeout_ms": str(SHARED_SESSION_MS),
    "group_consumer_session_timeout_ms": str(SHARED_SESSION_MS),
    "group_consumer_min_heartbeat_interval_ms": "200",
    "group_consumer_heartbeat_interval_ms": "200",
}


class Worker:
    def __init__(self, node: Node, name: str, *arguments: str) -> None:
        self._command = [sys.executable, str(WORKER), node.bootstrap, *arguments[:3], name, *arguments[3:]]
        self._output = node.directory / name
        self._start()

    def _start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        self.kill()
        self._start()

    def stand_still(self) -> None:
        """For longer than the others wait for it."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(SHARED_SESSION_MS / 1000 + 0.7)
        self._process.send_signal(signal.SIGCONT)

    def told(self) -> str:
        state = "runs" if self._process.poll() is None else f"ended with {self._process.returncode}"
        return f"{self._output.name} {state}; its last words:\n{self._output.read_text(errors='replace')[-2000:]}"


class Numbers(SteadyLoad):
    """Idempotent, so that every number is in the source exactly once."""

    def run(self) -> None:
        producer: Producer = self._producer
        while not self._stop_asked.is_set():
            if len(producer) < 1000:
                number = self.sent
                where, report = number % PARTITIONS, self._delivered(number)
                producer.produce(self.topic, b"%d" % number, partition=where, on_delivery=report)
                self.sent += 1
            producer.poll(0)
            time.sleep(self._pause_s)


def positions(node: Node, group: str, topic: str) -> list[int]:
    """What the group has committed, -1 where that is not settled."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(PARTITIONS)))]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    with Connection(node.port) as connection:
        answer = connection.call(asked, 8).groups[0]
    return [found.committed_offset for told in answer.topics for found in told.partitions]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("protocol", "seed"), [("classic", 1), ("consumer", 2)])
def test_workers_of_a_group_copy_every_input_exactly_once(node: Node, protocol: str, seed: int) -> None:
    source_of_chance = random.Random(seed)
    node.start(**SETTINGS)
    with Connection(node.port) as connection:
        source = create_topic(connection, "numbers", partitions=PARTITIONS)
        target = create_topic(connection, "copies", partitions=2)
        group = new_group(connection)
    load = Numbers(node.bootstrap, source, idempotent=True, pause_s=0.002)
    load.start()
    workers = [Worker(node, f"worker-{number}", source, target, group, protocol) for number in range(2)]
    try:
        wait_until(lambda: min(positions(node, group, source)) > 0, "the group is at work", 90, interval_s=0.1)
        for what, who in (("stop", 0), ("kill node", -1), ("kill", 0), ("stop", 1)):
            time.sleep(0.3 + source_of_chance.random())
            match what:
                case "kill node":
                    node.kill()
                    node.start(**SETTINGS)
                case "kill":
                    workers[who].restart()
                case "stop":
                    workers[who].stand_still()
        load.stop()
        assert not load.failed, f"{len(load.failed)} numbers were refused, first {load.failed[0]}"
        assert load.sent > PARTITIONS
        expected = [len(range(partition, load.sent, PARTITIONS)) for partition in range(PARTITIONS)]
        try:
            wait_until(lambda: positions(node, group, source) == expected, "all is copied", 90, interval_s=0.1)
        except TimeoutError as error:
            told = "\n".join(worker.told() for worker in workers)
            raise TimeoutError(f"{error}: {positions(node, group, source)} of {expected}. {told}") from None
    finally:
        for worker in workers:
            worker.kill()
    copies = read_committed(node, target, 0) + read_committed(node, target, 1)
    assert len(copies) == len(set(copies)), "something was copied twice"
    assert sorted(copies) == list(range(load.sent))

"""SIGKILL of the node and of clients in the middle of transactions: every input exactly once in the output."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.conformance.transactions.producer import WireProducer, committed_offset, new_group, read
from tests.faults.conftest import Node
from tests.faults.load import SteadyLoad
from tests.servers.topics import LATEST, create_topic, list_offset, new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.model.errors import ErrorCode

WORKER = Path(__file__).with_name("transactional_worker.py")
TRANSACTION_SECONDS = 60


class Worker:
    """One after the other they write what they do to the same file, so that a failure can tell it."""

    def __init__(self, node: Node, source: str, target: str, group: str) -> None:
        arguments = [node.bootstrap, source, target, group, "copier"]
        self._output = node.directory / "worker"
        with self._output.open("ab") as output:
            command = [sys.executable, str(WORKER), *arguments]
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def told(self) -> str:
        state = "runs" if self._process.poll() is None else f"ended with {self._process.returncode}"
        return f"the worker {state}; its last words:\n{self._output.read_text(errors='replace')[-3000:]}"

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)


def read_committed(node: Node, topic: str, partition: int) -> list[int]:
    """Everything up to the end, which is there when the last transaction is done."""
    with Connection(node.port) as connection:
        end = list_offset(connection, topic, partition, LATEST)[2]
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[int] = []

        def is_at_end() -> bool:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if message is not None and error is None:
                values.append(int(message.value()))
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            return error is not None and message.offset() >= end

        wait_until(is_at_end, f"the end of {topic}-{partition}", interval_s=0)
        return values
    finally:
        consumer.close()


def run_rounds(node: Node, *, rounds: int, seed: int, **settings: str) -> None:
    """Numbers go into a topic; a worker copies them in transactions; node and worker are killed in turn."""
    source_of_chance = random.Random(seed)
    settings = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "500", **settings}
    node.start(**settings)
    with Connection(node.port) as connection:
        source = create_topic(connection, "numbers")
        target = create_topic(connection, "copies", partitions=2, configs={"segment.bytes": "1048576"})
        group = new_group(connection)
    load = Numbers(node.bootstrap, source)
    load.start()
    worker = Worker(node, source, target, group)
    try:
        for _ in range(rounds):
            time.sleep(0.3 + source_of_chance.random())
            victim = source_of_chance.choice(("node", "worker", "both"))
            if victim != "node":
                worker.kill()
            if victim != "worker":
                node.kill()
                node.start(**settings)
            if victim != "node":
                worker = Worker(node, source, target, group)
        load.stop()
        assert not load.failed, f"{len(load.failed)} numbers were refused, first {load.failed[0]}"
        sent = load.sent
        # The source has a gap nowhere, so the committed offset says how much was copied.
        wait_for_position(node, worker, group, source, sent)
    finally:
        worker.kill()
    copies = read_committed(node, target, 0) + read_committed(node, target, 1)
    assert len(copies) == len(set(copies)), "something was copied twice"
    assert sorted(copies) == list(range(sent))
    assert read_committed(node, target, 0) == sorted(number for number in copies if number % 2 == 0), "out of order"


def wait_for_position(node: Node, worker: Worker, group: str, source: str, end: int) -> None:
    reached: list[int] = []

    def is_there() -> bool:
        if not worker.is_alive():
            raise AssertionError(worker.told())
        with Connection(node.port) as connection:
            reached.append(committed_offset(connection, group, source, stable=True)[1])
        return reached[-1] == end

    try:
        wait_until(is_there, f"all {end} numbers are copied", 90, interval_s=0.05)
    except TimeoutError as error:
        node_log = node.running.log_text()[-3000:]
        raise TimeoutError(f"{error}: {reached[-1]} are. {worker.told()}\nThe node's log:\n{node_log}") from None


class Numbers(SteadyLoad):
    """Idempotent, so that every number is in the source exactly once; not in transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic, idempotent=True, pause_s=0.002)

    def run(self) -> None:
        producer: Producer = self._producer
        while not self._stop_asked.is_set():
            if len(producer) < 1000:
                producer.produce(self.topic, b"%d" % self.sent, partition=0, on_delivery=self._delivered(self.sent))
                self.sent += 1
            producer.poll(0)
            time.sleep(self._pause_s)


@pytest.mark.timeout(300)
def test_every_input_is_exactly_once_in_the_output(node: Node) -> None:
    run_rounds(node, rounds=4, seed=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_every_input_is_exactly_once_in_the_output_over_many_rounds(node: Node, seed: int) -> None:
    run_rounds(node, rounds=40, seed=100 + seed, tidelog_flush="ack" if seed % 2 else "os")


@pytest.mark.timeout(300)
def test_a_lane_of_the_topic_sink_goes_on_after_kills_of_the_node(node: Node) -> None:
    """Its producer stays open from batch to batch, whatever happens to the broker in between."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    from tidelog.pipelines.delivery.lane_writer import LaneTarget, _Lane
    from tidelog.pipelines.topics.topic_sink import producer_settings

    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "lane")
    settings = producer_settings(node.bootstrap, {"log_level": "0", "reconnect.backoff.max.ms": "200"})
    target = LaneTarget(
        topic=topic,
        sink_id=new_name("sink"),
        batch=0,
        partitions=1,
        partitioner="murmur2",
        settings=settings,
        transaction_timeout_s=TRANSACTION_SECONDS,
    )
    lane = _Lane(target, 0)
    for batch in range(3):
        # What hangs, hangs in C and cannot be interrupted: hence a thread.
        writing = threading.Thread(target=write_batch, args=(lane, batch), daemon=True)
        writing.start()
        writing.join(90)
        assert not writing.is_alive(), f"batch {batch} hangs"
        assert lane.marker == batch + 1
        node.kill()
        node.start()
    with Connection(node.port) as connection:
        assert read(connection, topic) == [b"0", b"1", b"2"]
        assert committed_offset(connection, target.sink_id, topic, stable=True) == (0, 3)
    lane.close()


def write_batch(lane: Any, batch: int) -> None:
    lane.begin(batch, TRANSACTION_SECONDS)
    lane.producer.produce(lane.target.topic, b"%d" % batch, partition=0)
    lane.commit(batch)


@pytest.mark.parametrize("version", [3, 5], ids=["older flow", "version 2"])
@pytest.mark.parametrize("flush", ["os", "ack"])
def test_a_transaction_goes_on_after_a_kill_of_the_node(node: Node, version: int, flush: str) -> None:
    """Whatever point it had reached: open transactions stay open, decided outcomes stand, fenced producers too."""
    node.start(tidelog_flush=flush)
    produce_version = 12 if version == 5 else 11
    with Connection(node.port) as connection:
        topic = create_topic(connection, "txn")
        group = new_group(connection)
        zombie = WireProducer(connection).started()
        producer = WireProducer(connection, zombie.transactional_id).started()
        others = [WireProducer(connection).started() for _ in range(3)]
        for name in [producer, *others]:
            if version == 3:
                assert name.add(topic) == [0]
                assert name.add_offsets(group) == 0
            assert name.produce(topic, b"before", version=produce_version) == 0
        assert producer.commit_offset(group, topic, 7, version=version) == 0
        assert others[0].end(commit=True, version=version) == 0
        assert others[1].end(commit=False, version=version) == 0
    node.kill()
    node.start(tidelog_flush=flush)
    with Connection(node.port) as connection:
        for name in [zombie, producer, *others]:
            name.connection = connection
        others[0].wait_for("CompleteCommit")
        others[1].wait_for("CompleteAbort")
        assert producer.wait_for("Ongoing").producer_epoch == producer.epoch
        assert zombie.end_settled(commit=True, version=version) in (47, 90)
        assert producer.produce(topic, b"after", version=produce_version) == 0
        assert producer.end_settled(commit=True, version=version) == 0
        producer.wait_for("CompleteCommit")
        assert others[2].end_settled(commit=False, version=version) == 0
        others[2].wait_for("CompleteAbort")
        assert read(connection, topic) == [b"before", b"before", b"after"]
        assert committed_offset(connection, group, topic, stable=True) == (0, 7)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_sequence_of_an_aborted_transaction_is_not_used_again_after_a_restart(node: Node, ending: str) -> None:
    """From the log after a kill, from the snapshot after a stop."""
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "txn")
        producer = WireProducer(connection).started()
        assert producer.add(topic) == [0]
        assert producer.produce(topic, b"aborted") == 0
        assert producer.end(commit=False) == 0
        producer.wait_for("CompleteAbort")
    if ending == "kill":
        node.kill()
    else:
        node.running.stop()
    node.start()
    with Connection(node.port) as connection:
        producer.connection = connection
        producer.wait_for("CompleteAbort")
        assert producer.add(topic) == [0]
        assert producer.produce(topic, b"another", base_sequence=0) == ErrorCode.UNKNOWN_PRODUCER_ID
        assert producer.end_settled(commit=False) == 0
        assert producer.init(expects=True) == 0
        assert producer.add(topic) == [0]
        assert producer.produce(topic, b"another") == 0
        assert producer.end_settled(commit=True) == 0
        producer.wait_for("CompleteCommit")
        assert read(connection, topic) == [b"another"]


def test_an_open_transaction_whose_producer_died_times_out_after_the_restart(node: Node) -> None:
    interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "200"}
    node.start(**interval)
    with Connection(node.port) as connection:
        topic = create_topic(connection, "txn")
        producer = WireProducer(connection, new_name("dies")).started(timeout_ms=1500)
        assert producer.produce(topic, b"never", version=12) == 0
    node.kill()
    node.start(**interval)
    with Connection(node.port) as connection:
        producer.connection = connection
        producer.wait_for("CompleteAbort")
        assert read(connection, topic) == []
        assert read(connection, topic, committed=False) == [b"never"]

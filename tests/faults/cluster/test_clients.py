"""Other clients than librdkafka write on, unchanged, while the leader they write to is killed: aiokafka and Java's."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Where
from tests.faults.cluster.load import (
    DEADLINE_S,
    PARTITIONS,
    create_topic,
    end_offset,
    is_whole,
    read_numbers,
    spread_leaders,
    wait_for,
)
from tests.faults.cluster.test_failover import leader_that_is_not
from tests.servers.java_tools import JavaTools, ToolResult
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.model.ids import TopicPartition


def begun(cluster: LocalCluster, *, is_controller: bool = False) -> tuple[str, int, int]:
    """A topic, a leader of it to be killed (the controller, or not), and a partition it leads."""
    topic = create_topic(cluster.bootstrap)
    state: ClusterState = spread_leaders(cluster.bootstrap, topic)
    victim = state.controller_id if is_controller else leader_that_is_not(state, topic, state.controller_id)
    partition = next(
        index for index in range(PARTITIONS) if state.partitions[TopicPartition(topic, index)].leader == victim
    )
    return topic, victim, partition


def end_offsets(bootstrap: str, topic: str) -> int:
    """Of all partitions together: how many records there are."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counting", "log_level": 0})
    try:
        return sum(end_offset(consumer, Where(topic, index)) for index in range(PARTITIONS))
    finally:
        consumer.close()


def finish(cluster: LocalCluster, victim: int) -> None:
    cluster.start_again(victim)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")


@pytest.mark.parametrize("is_controller", [False, True], ids=["leader", "controller"])
def test_an_idempotent_producer_of_aiokafka(cluster: LocalCluster, is_controller: bool) -> None:
    topic, victim, partition = begun(cluster, is_controller=is_controller)

    async def write() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, request_timeout_ms=60_000
        )
        await producer.start()
        written = 0
        killed_at = None
        try:
            async with asyncio.timeout(DEADLINE_S):
                while killed_at is None or written < killed_at + 50:
                    await producer.send_and_wait(topic, str(written).encode(), partition=partition)
                    written += 1
                    if written == 50:
                        cluster.send_signal(victim, signal.SIGKILL)
                        killed_at = written
        finally:
            await producer.stop()
        return written

    written = asyncio.run(write())
    finish(cluster, victim)
    assert read_numbers(cluster.bootstrap, topic, partition) == list(range(written))


@pytest.mark.java
def test_the_producer_and_the_consumer_of_kafkas_own_tools(
    cluster: LocalCluster, java_tools: JavaTools, cluster_data: Path
) -> None:
    """ProducerPerformance at a steady pace, its leader killed on the way: no record fails, none is there twice."""
    topic, victim, _ = begun(cluster)
    count, results = 3000, list[ToolResult]()
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    # Slow enough that it is at work for seconds, even if its first record waited long for a busy machine.
    load = ("--num-records", str(count), "--record-size", "100", "--throughput", "300")
    properties = ("--command-property", "acks=all", "enable.idempotence=true", "linger.ms=0")

    def write() -> None:
        results.append(java_tools.run("org.apache.kafka.tools.ProducerPerformance", *arguments, *load, *properties))

    def log_bytes() -> int:
        logs = (cluster_data / f"node-{victim}").glob(f"{topic}-*/*.log")
        return sum(path.stat().st_size for path in logs)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    wait_until(lambda: log_bytes() > 20_000, "the tool writes", DEADLINE_S)
    cluster.send_signal(victim, signal.SIGKILL)
    assert writer.is_alive(), "the leader dies under the tool"
    writer.join(DEADLINE_S)
    finish(cluster, victim)
    assert f"{count} records sent" in results[0].check()
    reading = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000")
    read = java_tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, *reading)
    assert f"Processed a total of {count} messages" in read.stdout + read.stderr
    assert end_offsets(cluster.bootstrap, topic) == count

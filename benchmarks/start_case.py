"""Starting: fresh and after a clean stop, and how long until 1,000 partitions can be written.

A partition counts as writable when a record was acknowledged by it; brokers list leaders before they can write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tests.servers.broker_process import BrokerProcess
from tests.servers.wire import Connection, ConnectionLost, NewRecord, build_batch, connect_when_listening

from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS = 1000
TIMEOUT_S = 120.0
RETRY_S = 0.01
IDLE_S = 3.0
"""After this long without requests the memory of a fresh broker is read."""

TOPIC_ALREADY_EXISTS = 36
MANY = "many"
FIRST = "first"

Spawn = Callable[[], BrokerProcess]


def create_topic(connection: Connection, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        [result] = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
        if result.error_code in (0, TOPIC_ALREADY_EXISTS):
            return
        assert time.monotonic() < deadline, result
        time.sleep(RETRY_S)


def write_to_each(connection: Connection, topic: str, partitions: Iterable[int]) -> None:
    """Return when every partition has acknowledged a record; those that refuse are asked again."""
    batch = build_batch([NewRecord(b"v" * 100)])
    waiting = set(partitions)
    deadline = time.monotonic() + TIMEOUT_S
    while waiting:
        data = [PartitionProduceData(index=partition, records=batch) for partition in sorted(waiting)]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        response = connection.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)
        for answer in response.responses[0].partition_responses:
            if answer.error_code == 0:
                waiting.discard(answer.index)
        assert time.monotonic() < deadline, f"{len(waiting)} partitions cannot be written"
        if waiting:
            time.sleep(RETRY_S)


def first_ack(broker: BrokerProcess, topic: str, *, create: bool) -> None:
    """From a process that was only just started to one acknowledged record."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with connect_when_listening(broker.port, TIMEOUT_S) as connection:
                if create:
                    create_topic(connection, topic, 1)
                write_to_each(connection, topic, [0])
                return
        except ConnectionLost:
            # A broker may take connections before it is ready to keep them.
            assert broker.alive(), broker.log_text()[-2000:]
            assert time.monotonic() < deadline, "no record was acknowledged"
            time.sleep(RETRY_S)


def measure_start(spawn: Spawn) -> dict[str, float]:
    """One fresh start, the 1,000 partitions, a clean stop and the start after it."""
    started = time.perf_counter()
    with spawn() as broker:
        first_ack(broker, FIRST, create=True)
        fresh_s = time.perf_counter() - started
        cpu_s = broker.cpu_seconds()
        time.sleep(IDLE_S)
        idle_mib = broker.rss_bytes() / 2**20
        with Connection(broker.port, timeout_s=TIMEOUT_S) as connection:
            started = time.perf_counter()
            create_topic(connection, MANY, PARTITIONS)
            write_to_each(connection, MANY, range(PARTITIONS))
            partitions_s = time.perf_counter() - started
        stop_s = broker.stop(TIMEOUT_S)
    started = time.perf_counter()
    with spawn() as broker:
        first_ack(broker, MANY, create=False)
        clean_s = time.perf_counter() - started
    return {
        "start.fresh_s": fresh_s,
        "start.cpu_s": cpu_s,
        "start.partitions_s": partitions_s,
        "start.clean_s": clean_s,
        "start.stop_s": stop_s,
        "memory.idle_mib": idle_mib,
    }

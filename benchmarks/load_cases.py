"""The cases that put load on a running broker; each returns CPU per record, records per second or latencies."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.servers.apache_kafka import tool_command
from tests.servers.broker_process import BrokerProcess
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

SETTLE_S = 0.3
"""A broker may finish work after its last answer; it counts."""
TIMEOUT_S = 240.0
CONSUMED_WITH_JAVA = 5_000_000

_numbers = itertools.count()
Figures = dict[str, float]
Run = Callable[[BrokerProcess, float], Figures]
"""Broker and the share of the full number of records to use."""


class LoadCase(NamedTuple):
    name: str
    run: Run
    needs_java: bool = False
    """Its load comes from Kafka's own tools."""


def create_topic(broker: BrokerProcess) -> str:
    name = f"bench-{next(_numbers)}"
    with Connection(broker.port) as connection:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        [result] = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert result.error_code == 0, result
        wait_until(lambda: log_end_offset(connection, name) == 0, f"{name} can be written")
    return name


def log_end_offset(connection: Connection, topic: str) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    [answer] = connection.call(request, 7).topics[0].partitions
    return int(answer.offset)


def delete_topic(broker: BrokerProcess, name: str) -> None:
    with Connection(broker.port) as connection:
        connection.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6)


def check_count(broker: BrokerProcess, topic: str, records: int) -> None:
    """A benchmark of lost records would be worthless."""
    with Connection(broker.port) as connection:
        found = log_end_offset(connection, topic)
    assert found == records, f"{broker.kind} has {found} of {records} records"


def client_command(broker: BrokerProcess, kind: str, topic: str, records: int, *options: str) -> list[str]:
    fixed = ("--port", str(broker.port), "--topic", topic, "--records", str(records))
    return [sys.executable, "-m", "benchmarks.client", kind, *fixed, *options]


def run_client(broker: BrokerProcess, kind: str, topic: str, records: int, *options: str) -> dict[str, Any]:
    command = client_command(broker, kind, topic, records, *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{kind} against {broker.kind} failed: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


class CpuMeter:
    """Broker CPU between two moments, per record."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._before = broker.cpu_seconds()

    def per_record_us(self, records: int) -> float:
        time.sleep(SETTLE_S)
        return (self._broker.cpu_seconds() - self._before) / records * 1e6


def run_java_tool(broker: BrokerProcess, name: str, *arguments: str) -> str:
    """Standard output of one of Kafka's tools."""
    command = tool_command(
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", broker.bootstrap, *arguments, heap="512M"
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name} against {broker.kind} failed: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def java_producer(broker: BrokerProcess, *, size: int, records: int, idempotent: bool = False) -> Figures:
    """Kafka's ProducerPerformance with its batches of 16 KB."""
    topic = create_topic(broker)
    meter = CpuMeter(broker)
    rate = _produce_with_java(broker, topic, size, records, idempotent)
    cpu_us = meter.per_record_us(records)
    check_count(broker, topic, records)
    delete_topic(broker, topic)
    return {"cpu_us": cpu_us, "rate": rate}


def _produce_with_java(broker: BrokerProcess, topic: str, size: int, records: int, idempotent: bool) -> float:
    """Records a second."""
    acks = ("acks=all", "enable.idempotence=true") if idempotent else ("acks=1", "enable.idempotence=false")
    output = run_java_tool(
        broker,
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"),
        *("--command-property", "batch.size=16384", *acks),
    )
    return float(re.findall(r"records sent, ([\d.]+) records/sec", output)[-1])


def java_consumer(broker: BrokerProcess, share: float) -> Figures:
    """Kafka's ConsumerPerformance reads batches of 16 KB; its rate is that of fetching, without joining a group."""
    records = int(CONSUMED_WITH_JAVA * share)
    topic = create_topic(broker)
    _produce_with_java(broker, topic, 100, records, False)
    meter = CpuMeter(broker)
    output = run_java_tool(
        broker,
        "ConsumerPerformance",
        *("--topic", topic, "--num-records", str(records), "--timeout", "60000"),
    )
    cpu_us = meter.per_record_us(records)
    names, figures = (re.split(r", *", line) for line in output.splitlines() if ", " in line)
    found = dict(zip(names, figures, strict=True))
    received = int(found["data.consumed.in.nMsg"])
    assert received == records, f"{broker.kind} gave {received} of {records} records"
    delete_topic(broker, topic)
    return {"consume-java.cpu_us": cpu_us, "consume-java.rate": float(found["fetch.nMsg.sec"])}


def produce_and_consume(broker: BrokerProcess, *, size: int, records: int, passes: int) -> tuple[Figures, Figures]:
    """librdkafka writes with batches of 1 MB, then reads the same records several times: serving them costs a broker so
    little that one pass would be over before there is anything to measure."""
    topic = create_topic(broker)
    meter = CpuMeter(broker)
    produced = run_client(broker, "produce", topic, records, "--size", str(size))
    produce_figures = {"cpu_us": meter.per_record_us(records), "rate": records / produced["seconds"]}
    check_count(broker, topic, records)
    meter = CpuMeter(broker)
    consumed = run_client(broker, "consume", topic, records, "--passes", str(passes))
    consume_figures = {
        "cpu_us": meter.per_record_us(records * passes),
        "rate": consumed["records"] / consumed["seconds"],
    }
    delete_topic(broker, topic)
    return produce_figures, consume_figures


def librdkafka_case(size: int, full_records: int, label: str, passes: int) -> Run:
    def run(broker: BrokerProcess, share: float) -> Figures:
        records = max(10_000, int(full_records * share) // 10_000 * 10_000)
        produced, consumed = produce_and_consume(broker, size=size, records=records, passes=passes)
        figures = {f"produce-{label}-1m.{name}": value for name, value in produced.items()}
        return figures | {f"consume-{label}.{name}": value for name, value in consumed.items()}

    return run


def java_case(name: str, size: int, full_records: int, idempotent: bool = False) -> Run:
    def run(broker: BrokerProcess, share: float) -> Figures:
        figures = java_producer(broker, size=size, records=int(full_records * share), idempotent=idempotent)
        return {f"{name}.{key}": value for key, value in figures.items()}

    return run


def latency_case(name: str, full_records: int) -> Run:
    def run(broker: BrokerProcess, share: float) -> Figures:
        records = int(full_records * share)
        topic = create_topic(broker)
        meter = CpuMeter(broker)
        figures = run_client(broker, name, topic, records)
        cpu_us = meter.per_record_us(records)
        check_count(broker, topic, records)
        delete_topic(broker, topic)
        return {f"{name}.p50_ms": figures["p50_ms"], f"{name}.p99_ms": figures["p99_ms"], f"{name}.cpu_us": cpu_us}

    return run


def end_to_end(broker: BrokerProcess, share: float) -> Figures:
    """A producer at 1,000 records a second in one process, the consumer that times them in another."""
    records = int(10_000 * share)
    topic = create_topic(broker)
    command = client_command(broker, "timing-consumer", topic, records)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "ready\n"
        meter = CpuMeter(broker)
        run_client(broker, "paced-producer", topic, records)
        cpu_us = meter.per_record_us(records)
        output, errors = consumer.communicate(timeout=60)
    if consumer.returncode != 0:
        raise RuntimeError(f"the consumer of {broker.kind} failed: {errors[-2000:]}")
    figures = json.loads(output)
    delete_topic(broker, topic)
    return {
        "end-to-end.p50_ms": figures["p50_ms"],
        "end-to-end.p99_ms": figures["p99_ms"],
        "end-to-end.cpu_us": cpu_us,
    }


LOAD_CASES = (
    LoadCase("produce-100-16k", java_case("produce-100-16k", 100, 2_000_000), needs_java=True),
    LoadCase("produce-1k-16k", java_case("produce-1k-16k", 1000, 300_000), needs_java=True),
    LoadCase("produce-idempotent", java_case("produce-idempotent", 100, 2_000_000, True), needs_java=True),
    LoadCase("batches-100-1m", librdkafka_case(100, 2_000_000, "100", passes=5)),
    LoadCase("batches-1k-1m", librdkafka_case(1000, 400_000, "1k", passes=5)),
    LoadCase("consume-java", java_consumer, needs_java=True),
    LoadCase("one-at-a-time", latency_case("one-at-a-time", 20_000)),
    LoadCase("bare-socket", latency_case("bare-socket", 20_000)),
    LoadCase("end-to-end", end_to_end),
)

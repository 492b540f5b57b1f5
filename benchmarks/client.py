"""The load, each kind in a process of its own: `python -m benchmarks.client KIND ...` prints one JSON object.

The same code and settings drive both brokers. What a client computes is not measured; only the broker's CPU, the time
until everything is done, and latencies seen from outside.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.servers.wire import Connection

RECORDS_PER_CALL = 10_000
LOCAL_QUEUE_RECORDS = 300_000
"""How far the producer may run ahead of the broker, so that its own memory does not become the benchmark."""
WINDOW_REQUESTS = 64
AFTER_KILL_S = 1.0


def percentile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def latency_figures(values_ms: list[float]) -> dict[str, float]:
    values_ms.sort()
    return {"p50_ms": percentile(values_ms, 0.50), "p99_ms": percentile(values_ms, 0.99)}


def produce(args: argparse.Namespace) -> dict[str, Any]:
    """librdkafka with batches of up to 1 MB."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "acks": args.acks,
            "enable.idempotence": args.idempotent,
            "batch.size": 1_000_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * LOCAL_QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    producer.list_topics(args.topic, timeout=30)
    value = bytes(range(256)) * (args.size // 256 + 1)
    messages = [{"value": value[: args.size]}] * RECORDS_PER_CALL
    started = time.perf_counter()
    for _ in range(args.records // RECORDS_PER_CALL):
        while len(producer) > LOCAL_QUEUE_RECORDS:
            producer.poll(0.001)
        queued = producer.produce_batch(args.topic, messages, partition=0)
        assert queued == RECORDS_PER_CALL, queued
    assert producer.flush(120) == 0
    return {"seconds": time.perf_counter() - started, "records": args.records}


def consume(args: argparse.Namespace) -> dict[str, Any]:
    """All records of the partition, from its start, as many times as there are passes."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # Without this the client stops fetching at 100,000 records in its queue and is measured itself.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            # A full queue puts off the next fetch by a second, and is empty before that is over: the faster a broker
            # fills it, the longer the client would have nothing to do.
            "fetch.queue.backoff.ms": 10,
        }
    )
    started = time.perf_counter()
    for _ in range(args.passes):
        consumer.assign([TopicPartition(args.topic, 0, 0)])
        received = 0
        while received < args.records:
            for message in consumer.consume(num_messages=10_000, timeout=10):
                assert message.error() is None, message.error()
                received += 1
            assert time.perf_counter() - started < 120, f"{received} of {args.records} records"
    seconds = time.perf_counter() - started
    consumer.close()
    return {"seconds": seconds, "records": args.records * args.passes}


def one_at_a_time(args: argparse.Namespace) -> dict[str, Any]:
    """One record, wait until it is acknowledged, the next: librdkafka as a program would use it."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": args.bootstrap, "linger.ms": 0, "acks": args.acks})
    producer.list_topics(args.topic, timeout=30)
    value = b"v" * args.size
    values_ms = []
    for _ in range(args.records):
        started = time.perf_counter()
        producer.produce(args.topic, value, partition=0)
        assert producer.flush(30) == 0
        values_ms.append((time.perf_counter() - started) * 1000)
    return {"records": args.records, **latency_figures(values_ms)}


def gap(args: argparse.Namespace) -> dict[str, Any]:
    """Records every few milliseconds while a broker is killed: the longest time without an acknowledgement. Prints a
    line when the first ones are acknowledged, and is sent a line when the broker is dead; ends when a record that was
    written a while later is acknowledged, or after so many seconds."""
    from confluent_kafka import Producer

    settings = {"linger.ms": 0, "enable.idempotence": True, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100}
    producer = Producer({"bootstrap.servers": args.bootstrap, "acks": args.acks, "log_level": 0, **settings})
    acknowledged_s = [time.monotonic()]
    longest_s = last_asked_s = 0.0
    killed_s: list[float] = []

    def delivered(asked_s: float, error: Any, message: Any) -> None:
        nonlocal longest_s, last_asked_s
        assert error is None, error
        now_s = time.monotonic()
        longest_s = max(longest_s, now_s - acknowledged_s[0])
        acknowledged_s[0] = now_s
        last_asked_s = asked_s

    def produce() -> None:
        producer.produce(args.topic, b"x", partition=0, on_delivery=partial(delivered, time.monotonic()))

    for _ in range(50):
        produce()
    assert producer.flush(60) == 0
    longest_s = 0.0
    acknowledged_s[0] = time.monotonic()

    def wait_for_kill() -> None:
        if sys.stdin.readline():
            killed_s.append(time.monotonic())

    threading.Thread(target=wait_for_kill, daemon=True).start()
    print("ready", flush=True)
    end_s = time.monotonic() + args.seconds
    while time.monotonic() < end_s and not (killed_s and last_asked_s > killed_s[0] + AFTER_KILL_S):
        produce()
        producer.poll(0.005)
    assert killed_s, "no broker was killed"
    assert producer.flush(60) == 0
    return {"gap_s": longest_s}


def bare_socket(args: argparse.Namespace) -> dict[str, Any]:
    """The same on a bare socket, so that no client's threads are in the way: what the broker itself takes."""
    from tests.servers.wire import Connection, NewRecord, build_batch

    from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    batch = build_batch([NewRecord(b"v" * args.size)])
    topic = TopicProduceData(name=args.topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
    values_ms = []
    with Connection(args.port) as connection:
        frame = connection.frame(0, 9, request.encode(9))
        data = struct.pack(">i", len(frame)) + frame
        for _ in range(args.records):
            started = time.perf_counter()
            connection.send_bytes(data)
            connection.receive_frame()
            values_ms.append((time.perf_counter() - started) * 1000)
    return {"records": args.records, **latency_figures(values_ms)}


def small_batches(args: argparse.Namespace) -> dict[str, Any]:
    """Requests of one small batch each, to all partitions of the topic wherever they are led; two windows of them are
    always under way. All answers are of one size: their bytes are counted, and only the first are looked at."""
    from tests.servers.wire import Connection

    from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

    with Connection(args.port) as connection:
        described = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name=args.topic)]), 9)
    ports = {broker.node_id: broker.port for broker in described.brokers}
    led: dict[int, list[int]] = {}
    for partition in described.topics[0].partitions:
        led.setdefault(ports[partition.leader_id], []).append(partition.partition_index)
    windows = [_Window(Connection(port), args.topic, partitions, args.size) for port, partitions in led.items()]
    rounds = max(1, args.records // (WINDOW_REQUESTS * len(windows)))
    started = time.perf_counter()
    for window in windows:
        window.send()
    for number in range(1, rounds + 1):
        for window in windows:
            if number < rounds:
                window.send()
            window.receive()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "records": (rounds + 1) * WINDOW_REQUESTS * len(windows)}


class _Window:
    """The same requests to one node, over and over. The first are sent, and their answers checked, when it is made."""

    def __init__(self, connection: Connection, topic: str, partitions: list[int], size: int) -> None:
        from tests.servers.wire import NewRecord, build_batch

        from tidelog.protocol.generated.produce import (
            PartitionProduceData,
            ProduceRequest,
            ProduceResponse,
            TopicProduceData,
        )

        self._connection = connection
        batch = build_batch([NewRecord(b"v" * size)])
        frames = []
        for number in range(WINDOW_REQUESTS):
            index = partitions[number % len(partitions)]
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])
            frame = connection.frame(0, 9, request.encode(9))
            frames.append(struct.pack(">i", len(frame)) + frame)
        self._requests = b"".join(frames)
        self.send()
        self._answer_bytes = 0
        for _ in range(WINDOW_REQUESTS):
            answer = connection.receive_frame()
            response, _ = ProduceResponse.decode(answer, 5, 9)
            assert response.responses[0].partition_responses[0].error_code == 0, response
            self._answer_bytes += 4 + len(answer)

    def send(self) -> None:
        self._connection.send_bytes(self._requests)

    def receive(self) -> None:
        self._connection.receive_exactly(self._answer_bytes)


def paced_producer(args: argparse.Namespace) -> dict[str, Any]:
    """Records at a steady rate, each with the time at which it was handed to the client."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": args.bootstrap, "linger.ms": 0, "acks": "all"})
    producer.list_topics(args.topic, timeout=30)
    padding = b"v" * (args.size - 8)
    started = time.perf_counter()
    for number in range(args.records):
        due = started + number / args.rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        producer.produce(args.topic, time.monotonic_ns().to_bytes(8, "big") + padding, partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    return {"records": args.records}


def timing_consumer(args: argparse.Namespace) -> dict[str, Any]:
    """How old each record is when it arrives. Prints a line when it is waiting at the end of the partition."""
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": args.bootstrap, "group.id": "benchmark", "enable.auto.commit": False})
    consumer.assign([TopicPartition(args.topic, 0, OFFSET_END)])
    consumer.poll(1.0)
    print("ready", flush=True)
    values_ms: list[float] = []
    idle_since = time.monotonic()
    while len(values_ms) < args.records and time.monotonic() - idle_since < 20:
        message = consumer.poll(0.5)
        if message is None:
            continue
        assert message.error() is None, message.error()
        now_ns = time.monotonic_ns()
        idle_since = now_ns / 1e9
        value = message.value()
        assert value is not None
        values_ms.append((now_ns - int.from_bytes(value[:8], "big")) / 1e6)
    consumer.close()
    assert len(values_ms) == args.records, f"{len(values_ms)} of {args.records} records arrived"
    return {"records": args.records, **latency_figures(values_ms)}


KINDS = {
    "produce": produce,
    "consume": consume,
    "one-at-a-time": one_at_a_time,
    "bare-socket": bare_socket,
    "small-batches": small_batches,
    "gap": gap,
    "paced-producer": paced_producer,
    "timing-consumer": timing_consumer,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--port", type=int, help="of the one broker")
    parser.add_argument("--bootstrap", help="addresses of several")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--acks", default="1")
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--idempotent", action="store_true")
    args = parser.parse_args()
    args.bootstrap = args.bootstrap or f"127.0.0.1:{args.port}"
    json.dump(KINDS[args.kind](args), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

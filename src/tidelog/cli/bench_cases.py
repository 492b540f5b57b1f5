"""The measurements of `tidelog bench`, each a function from arguments and topic to a result."""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.cli.clients import connect_consumer, connect_producer, describe_error, partition_ids
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Progress, percentile

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

T = TypeVar("T")

SETTLE_SECONDS_MAX = 60.0
"""Without any progress for so long a measurement is given up."""

TOPIC_SECONDS_MAX = 5.0

SINGLE_SETTINGS = {"acks": "1", "linger.ms": 0, "socket.nagle.disable": True}
"""For latency: nothing waits to be sent together with something else, not in the client and not in the kernel."""

WARM_UP_RECORDS = 50
POLL_EVERY = 1000
TIMESTAMP_BYTES = 8


class Throughput:
    """How many records in which time."""

    def __init__(self, records: int, size_bytes: int, seconds: float) -> None:
        self.records = records
        self.size_bytes = size_bytes
        self.seconds = max(seconds, 1e-9)

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def mib_per_second(self) -> float:
        return self.size_bytes / self.seconds / (1024 * 1024)

    def as_document(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "seconds": round(self.seconds, 4),
            "records_per_second": round(self.records_per_second, 1),
            "mib_per_second": round(self.mib_per_second, 3),
        }


class Latencies:
    """The latencies of single records, in seconds."""

    def __init__(self, seconds: list[float]) -> None:
        self._ordered = sorted(seconds)
        self.count = len(seconds)

    def summary_ms(self) -> tuple[float, float, float, float, float]:
        """p50, p95, p99, p99.9 and the longest."""
        p50, p95, p99, p999 = (percentile(self._ordered, share) * 1000 for share in (0.50, 0.95, 0.99, 0.999))
        return p50, p95, p99, p999, self._ordered[-1] * 1000

    def as_document(self) -> dict[str, Any]:
        names = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
        return {
            "records": self.count,
            **{name: round(value, 4) for name, value in zip(names, self.summary_ms(), strict=True)},
        }


def make_value(size_bytes: int) -> bytes:
    """Printable bytes that compress about as badly as real records; the same every time."""
    alphabet = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789{}"
    return bytes(random.Random(size_bytes).choices(alphabet, k=size_bytes))


@contextmanager
def _producing(args: argparse.Namespace, settings: dict[str, Any]) -> Iterator[Producer]:
    """A producer that is gone afterwards, with what it could not send: one that goes on looking for its topic makes a
    broker create it again."""
    producer = connect_producer(args, settings)
    try:
        yield producer
    finally:
        producer.purge()
        producer.close()


def _await_topic(client: Producer | Consumer, args: argparse.Namespace, topic: str) -> list[int]:
    """The topic's partitions."""
    return _patiently(args, lambda: partition_ids(client, args, topic))


def _patiently(args: argparse.Namespace, ask: Callable[[], T]) -> T:
    """Asks about a topic; one that was just made comes to the other nodes of a cluster a moment later."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + (0 if args.topic else TOPIC_SECONDS_MAX)
    while True:
        try:
            return ask()
        except (CommandError, KafkaException):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def measure_produce(args: argparse.Namespace, topic: str) -> Throughput:
    """Many records, as fast as the clients can; ends with the last acknowledgement."""
    settings = {
        "acks": "all" if args.idempotent else args.acks,
        "enable.idempotence": args.idempotent,
        "compression.type": args.compression,
        "batch.size": args.batch_size,
        "batch.num.messages": 1_000_000,
        "linger.ms": args.linger_ms,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "message.max.bytes": max(args.batch_size * 2, args.size * 2, 1_000_000),
    }
    with ExitStack() as stack:
        producers = [stack.enter_context(_producing(args, settings)) for _ in range(args.producers)]
        for producer in producers:
            _await_topic(producer, args, topic)
        shares = [
            args.records // args.producers + (index < args.records % args.producers) for index in range(args.producers)
        ]
        value = make_value(args.size)
        senders = [_Sender(producer, topic, share, value) for producer, share in zip(producers, shares, strict=True)]
        seconds = _send_all(senders, Progress("produce:", args.records))
    failure = next((sender.failure for sender in senders if sender.failure), None)
    if failure is not None:
        raise CommandError(f"produce: {failure}")
    return Throughput(args.records, args.records * args.size, seconds)


def _send_all(senders: list[_Sender], progress: Progress) -> float:
    """How long it took until the last had ended."""
    started = time.perf_counter()
    threads = [threading.Thread(target=sender.run, daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.05) if threads[0].is_alive() else time.sleep(0.01)
            progress.update(sum(sender.acknowledged for sender in senders))
    finally:
        progress.close()
        for sender, thread in zip(senders, threads, strict=True):
            sender.stop()
            thread.join()
    return max(sender.ended for sender in senders) - started


class _Sender:
    """One producer in a thread of its own."""

    def __init__(self, producer: Producer, topic: str, count: int, value: bytes) -> None:
        self._producer = producer
        self._topic = topic
        self._count = count
        self._value = value
        self.acknowledged = 0
        self.failure: str | None = None
        self.ended = 0.0

    def run(self) -> None:
        try:
            self._send()
        except Exception as error:
            self.failure = str(error)
        self.ended = time.perf_counter()

    def stop(self) -> None:
        """Calls off what has not ended."""
        if not self.ended and self.failure is None:
            self.failure = "interrupted"

    def _send(self) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        topic, value, settle = self._topic, self._value, self._settle
        for number in range(self._count):
            while True:
                try:
                    produce(topic, value, on_delivery=settle)
                    break
                except BufferError:
                    poll(0.05)
                    if self.failure is not None:
                        return
            if number % POLL_EVERY == 0:
                poll(0)
                if self.failure is not None:
                    return
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while self._producer.flush(0.2) and self.failure is None:
            if time.monotonic() > deadline:
                self.failure = f"{len(self._producer)} records not acknowledged in {SETTLE_SECONDS_MAX:.0f} s"

    def _settle(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.failure is None:
            self.failure = describe_error(error)


def _bulk_consumer(args: argparse.Namespace, **settings: Any) -> Consumer:
    return connect_consumer(
        args,
        {
            "group.id": "tidelog-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # With the default the client stops fetching while Python still works on what is there, and is measured
            # instead of the broker.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            # A full queue would put off the next fetch by a second, and be empty before that is over.
            "fetch.queue.backoff.ms": 10,
            "fetch.message.max.bytes": 10 * 1024 * 1024,
            **settings,
        },
    )


def measure_consume(args: argparse.Namespace, topic: str) -> Throughput:
    """Reads the topic from its beginning, up to as many records as were asked for."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer = _bulk_consumer(args)
    progress = Progress("consume:", args.records)
    count = size_bytes = 0
    try:
        partitions = _await_topic(consumer, args, topic)
        started = time.perf_counter()
        heard_at = started
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        while count < args.records:
            messages = consumer.consume(num_messages=10_000, timeout=0.5)
            for message in messages:
                error = message.error()
                if error is not None:
                    raise CommandError(f"consume: {describe_error(error)}")
                size_bytes += len(message)
            count += len(messages)
            now = time.perf_counter()
            heard_at = now if messages else heard_at
            if now - heard_at > SETTLE_SECONDS_MAX / 4:
                raise CommandError(f"consume: only {count} of {args.records} records are there")
            progress.update(count)
        return Throughput(count, size_bytes, time.perf_counter() - started)
    finally:
        progress.close()
        consumer.close()


def measure_single(args: argparse.Namespace, topic: str) -> Latencies:
    """One record at a time with acks=1: from handing it over to its acknowledgement."""
    value = make_value(args.size)
    settled: list[KafkaError | None] = []
    latencies = []
    progress = Progress("single:", args.singles)
    with _producing(args, SINGLE_SETTINGS) as producer:
        _await_topic(producer, args, topic)
        for number in range(args.singles + WARM_UP_RECORDS):
            settled.clear()
            started = time.perf_counter()
            producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: settled.append(error))
            while not settled:
                producer.poll(SETTLE_SECONDS_MAX)
            elapsed = time.perf_counter() - started
            if settled[0] is not None:
                raise CommandError(f"single: {describe_error(settled[0])}")
            if number >= WARM_UP_RECORDS:
                latencies.append(elapsed)
                progress.update(len(latencies))
    progress.close()
    return Latencies(latencies)


def measure_end_to_end(args: argparse.Namespace, topic: str) -> Latencies:
    """Records at a steady rate; each carries the time it was handed over, the reader subtracts."""
    from confluent_kafka import OFFSET_END, TopicPartition

    consumer = _bulk_consumer(args, **{"fetch.wait.max.ms": 100, "fetch.min.bytes": 1, "socket.nagle.disable": True})
    total = max(int(args.rate * args.seconds), 1)
    progress = Progress("end to end:", total)
    try:
        with _producing(args, SINGLE_SETTINGS) as producer:
            _await_topic(producer, args, topic)
            low, high = _patiently(args, lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10))
            # A probe proves that the reader is in place before anything is timed.
            consumer.assign([TopicPartition(topic, 0, max(high, low) if high >= 0 else OFFSET_END)])
            producer.produce(topic, b"probe", partition=0)
            producer.flush(10)
            _await_probe(consumer)
            ending = threading.Event()
            writer = threading.Thread(target=_write_steadily, args=(producer, topic, args, total, ending), daemon=True)
            writer.start()
            try:
                return Latencies(_read_latencies(consumer, total, progress))
            finally:
                ending.set()
                writer.join()
    finally:
        progress.close()
        consumer.close()


def _read_latencies(consumer: Consumer, total: int, progress: Progress) -> list[float]:
    latencies: list[float] = []
    heard_at = time.monotonic()
    while len(latencies) < total:
        message = consumer.poll(0.5)
        now = time.perf_counter_ns()
        if message is None or message.error() is not None:
            if time.monotonic() - heard_at > SETTLE_SECONDS_MAX / 4:
                raise CommandError(f"end to end: only {len(latencies)} of {total} records arrived")
            continue
        heard_at = time.monotonic()
        latencies.append((now - int.from_bytes((message.value() or b"")[:TIMESTAMP_BYTES], "big")) / 1e9)
        progress.update(len(latencies))
    return latencies


def _await_probe(consumer: Consumer) -> None:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            return
    raise CommandError("end to end: a first record did not arrive within 15 s")


def _write_steadily(
    producer: Producer, topic: str, args: argparse.Namespace, total: int, ending: threading.Event
) -> None:
    padding = make_value(max(args.size - TIMESTAMP_BYTES, 0))
    started = time.perf_counter()
    for number in range(total):
        ahead = started + number / args.rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if ending.is_set():
            return
        producer.produce(topic, time.perf_counter_ns().to_bytes(TIMESTAMP_BYTES, "big") + padding, partition=0)
        producer.poll(0)
    producer.flush(10)

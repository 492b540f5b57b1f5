"""The orders of `tidelog demo`: made up from a fixed seed, written, read and tallied the same way on both sides."""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog.cli.clients import connect_consumer, connect_producer, describe_error
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Progress, format_count
from tidelog.cli.times import format_time

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

CUSTOMERS = 1000
SILENCE_SECONDS_MAX = 10.0
FROM_MS = 1_794_816_000_000
UNTIL_MS = FROM_MS + 20 * 60_000
"""When the orders were made: twenty minutes of a morning."""

_ITEMS = ("anchor", "buoy", "chart", "compass", "hawser", "lantern", "oar", "rudder", "sextant", "spinnaker")
_COUNTRIES = ("DE", "DK", "FI", "FR", "IS", "NL", "NO", "PT", "SE")


def make_orders(
    count: int, *, first: int = 0, from_ms: int = FROM_MS, until_ms: int = UNTIL_MS
) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each order; the same orders every time. They come in waves between two points in time."""
    chance = random.Random(1 + first)
    dumps = json.JSONEncoder(separators=(",", ":")).encode
    for number in range(first, first + count):
        share = (number - first) / count
        # The slope stays above zero: time only goes forward, now faster, now slower.
        share += 0.05 * math.sin(4 * math.pi * share)
        customer = f"customer-{chance.randrange(CUSTOMERS):04d}"
        order = {
            "order": number,
            "customer": customer,
            "country": chance.choice(_COUNTRIES),
            "item": chance.choice(_ITEMS),
            "quantity": chance.randint(1, 9),
            "amount_cents": chance.randint(99, 99_999),
            "at": format_time(from_ms + int(share * (until_ms - from_ms))),
        }
        yield customer.encode(), dumps(order).encode()


class PartitionTally:
    """What one partition holds; two are equal when the same bytes are at the same offsets in the same order."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self.crc = 0
        self.first = -1
        self.last = -1
        self.has_gap = False

    def add(self, offset: int, key: bytes, value: bytes) -> None:
        if self.count == 0:
            self.first = offset
        elif offset != self.last + 1:
            self.has_gap = True
        self.last = offset
        self.count += 1
        self.size_bytes += len(value)
        self.crc = zlib.crc32(value, zlib.crc32(key, self.crc))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionTally) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Tally:
    """Everything that is compared between what was acknowledged and what is read."""

    def __init__(self) -> None:
        self.partitions: dict[int, PartitionTally] = {}
        self.amount_cents = 0
        self.out_of_order = 0
        self._last_order: dict[bytes, int] = {}

    @classmethod
    def of(cls, messages: list[Message]) -> Tally:
        tally = cls()
        for message in messages:
            tally.add(message)
        return tally

    @property
    def count(self) -> int:
        return sum(partition.count for partition in self.partitions.values())

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions.values())

    def add(self, message: Message) -> None:
        key, value = message.key() or b"", message.value() or b""
        number = message.partition() or 0
        partition = self.partitions.get(number)
        if partition is None:
            partition = self.partitions[number] = PartitionTally()
        offset = message.offset()
        partition.add(-1 if offset is None else offset, key, value)
        order = json.loads(value)
        self.amount_cents += order["amount_cents"]
        if order["order"] <= self._last_order.get(key, -1):
            self.out_of_order += 1
        self._last_order[key] = order["order"]

    def differences(self, written: Tally, what: str) -> list[str]:
        """One line per thing that is not as it was written; empty when all is well."""
        problems = []
        if self.count != written.count:
            problems.append(f"{what} gave {format_count(self.count)} of {format_count(written.count)} orders")
        problems += [
            f"{what} gave other bytes or offsets in partition {number}"
            for number in sorted({*self.partitions, *written.partitions})
            if self.partitions.get(number) != written.partitions.get(number)
        ]
        if any(partition.has_gap or partition.first != 0 for partition in self.partitions.values()):
            problems.append(f"{what} found gaps in the offsets")
        if self.out_of_order:
            problems.append(f"{what} found {format_count(self.out_of_order)} orders of a customer out of order")
        if self.amount_cents != written.amount_cents:
            problems.append(f"{what} gave another sum of all orders")
        return problems


def produce_orders(args: argparse.Namespace, topic: str, count: int) -> tuple[Tally, float]:
    """Writes the orders, keyed by customer; what was acknowledged, and how many seconds writing took.

    Orders are made before the clock starts and tallied after it stops: the figure is that of node and client.
    """
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
    producer = connect_producer(args, {**settings, "queue.buffering.max.messages": 200_000})
    orders = list(make_orders(count))
    acknowledged: list[Message] = []
    failures: list[str] = []

    def settle(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message)
        else:
            failures.append(describe_error(error))

    progress = Progress("producing", count)
    started = time.perf_counter()
    for number, (key, value) in enumerate(orders):
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=settle)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
            progress.update(len(acknowledged))
    deadline = time.monotonic() + 3 * SILENCE_SECONDS_MAX
    while producer.flush(0.2) and time.monotonic() < deadline:
        progress.update(len(acknowledged))
    seconds = time.perf_counter() - started
    progress.close()
    if failures:
        raise CommandError(f"{len(failures)} orders were refused: {failures[0]}")
    if len(acknowledged) != count:
        raise CommandError(f"only {len(acknowledged)} of {count} orders were acknowledged")
    return Tally.of(acknowledged), seconds


def consume_orders(args: argparse.Namespace, topic: str, partitions: int, count: int) -> tuple[Tally, float]:
    """Reads the topic from its beginning to its end; what came, more than was written included, and the seconds."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    settings: dict[str, Any] = {
        "group.id": "tidelog-demo",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "queued.min.messages": 1_000_000,
        "fetch.wait.max.ms": 50,
    }
    consumer = connect_consumer(args, settings)
    read: list[Message] = []
    open_partitions = set(range(partitions))
    progress = Progress("consuming", count)
    try:
        started = heard_at = last_at = time.perf_counter()
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        while open_partitions and heard_at - last_at < SILENCE_SECONDS_MAX:
            messages = consumer.consume(10_000, timeout=0.1)
            heard_at = time.perf_counter()
            for message in messages:
                error = message.error()
                if error is None:
                    # The clock stops with the last order, not with the proof that no more come.
                    last_at = heard_at
                    read.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition() or 0)
                else:
                    raise CommandError(f"reading {topic}: {describe_error(error)}")
            progress.update(len(read))
    finally:
        progress.close()
        consumer.close()
    return Tally.of(read), last_at - started

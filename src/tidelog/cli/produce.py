"""`tidelog produce`: writes one record, or one per line of a file or of standard input.

Every record's partition and offset are printed once it is acknowledged; a large input shows progress and ends with a
summary per partition. A record that cannot be written ends the command with an error after all others were settled.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.clients import (
    cluster_metadata,
    connect_producer,
    describe_error,
    unknown_topic,
)
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import (
    Column,
    Progress,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    note,
    print_table,
)
from tidelog.cli.times import parse_time

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

PARTITIONERS = {
    "murmur2": "murmur2_random",
    "fnv1a": "fnv1a_random",
    "crc32": "consistent_random",
    "round-robin": None,
}
"""Our name -> librdkafka's. All but round-robin hash the key and spread records without one."""

TOPIC_SECONDS_MAX = 3.0
"""How long a topic that the broker creates by itself may take to be writable."""

LINGER_MS = 5
INTERRUPT_FLUSH_SECONDS = 2.0

PARTITION_UNASSIGNED = -1
"""Leaves the choice to librdkafka's partitioner."""

SHOWN_RECORDS_MAX = 20
"""A terminal shows so many records one by one, then only progress and a summary; a file or a program gets them all."""


class NewRecord(NamedTuple):
    """What is to be written; None is null, which is not the same as empty."""

    key: bytes | None
    value: bytes | None


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "produce",
        help="write records to a topic",
        description="Writes one record (--value) or one per line of a file or of standard input, and prints partition "
        "and offset of each.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-k", "--key", help="key of the record, or of all records")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("-v", "--value", help="value of a single record; '' is empty, not null")
    source.add_argument("-f", "--file", metavar="FILE", help="one record per line of this file; - is standard input")
    parser.add_argument("--key-separator", metavar="S", help="lines are KEY S VALUE (\\t is a tab)")
    parser.add_argument(
        "--null-value",
        "--tombstone",
        action="store_true",
        help="write null as the value: with --key one tombstone; with lines, wherever the value is empty",
    )
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="header of each record"
    )
    parser.add_argument("-p", "--partition", type=int, metavar="P", help="write to this partition whatever the key")
    parser.add_argument(
        "--timestamp", metavar="T", help="create time of the records: ISO 8601, milliseconds, or ago (default: now)"
    )
    parser.add_argument(
        "--partitioner", choices=tuple(PARTITIONERS), default="murmur2", help="(default murmur2, as Java)"
    )
    parser.add_argument(
        "--acks",
        choices=("0", "1", "all"),
        default="all",
        help="required acknowledgements: none, the leader's, or those of all in-sync replicas (default all)",
    )
    parser.add_argument(
        "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none", help="(default none)"
    )
    parser.add_argument("--idempotent", action="store_true", help="no duplicates and no reordering on retries")
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="give up on a record after (default 30)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="one JSON line per record")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    check_arguments(args)
    headers = parse_headers(args.header)
    with open_source(args) as records:
        producer = connect_producer(args, producer_settings(args))
        partitions = _wait_for_partitions(producer, args)
        if args.partition is not None and args.partition not in partitions:
            raise CommandError(f"topic {args.topic} has no partition {args.partition}; it has {len(partitions)}")
        deliveries = Deliveries(args)
        choose = partition_chooser(args, partitions)
        try:
            _send_all(producer, args, records, headers, choose, deliveries)
        finally:
            deliveries.progress.close()
    deliveries.report()
    if deliveries.failure is not None:
        lost = f"{format_count(deliveries.failed)} of {format_count(deliveries.failed + deliveries.count)} records"
        raise CommandError(f"{lost} not written to {args.topic}: {deliveries.failure}")
    return 0


def check_arguments(args: argparse.Namespace) -> None:
    """What argparse cannot see: options that contradict each other."""
    if args.key is not None and args.key_separator is not None:
        raise UsageError("--key and --key-separator both give keys: use one")
    if args.value is not None and args.key_separator is not None:
        raise UsageError("--key-separator is for lines; give the key of a single record with --key")
    if args.value and args.null_value:
        raise UsageError("--value and --null-value contradict each other: use one")
    if args.key_separator == "":
        raise UsageError("--key-separator must not be empty")
    if args.partition is not None and args.partition < 0:
        raise UsageError("--partition must not be negative")
    if args.timestamp is not None:
        parse_timestamp(args.timestamp)
    if args.timeout <= 0:
        raise UsageError("--timeout must be positive")
    if args.idempotent and args.acks != "all":
        raise UsageError("--idempotent needs --acks all")


def parse_timestamp(text: str) -> int:
    try:
        timestamp_ms = parse_time(text, int(time.time() * 1000))
    except ValueError as error:
        raise UsageError(f"--timestamp: {error}") from None
    if timestamp_ms < 1:
        raise UsageError("--timestamp must be positive: after 1970")
    return timestamp_ms


def parse_headers(texts: list[str]) -> list[tuple[str, bytes]]:
    """Headers keep their order and may repeat, so this is no mapping."""
    headers = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--header needs NAME=VALUE, got {text!r}")
        headers.append((name, os.fsencode(value)))
    return headers


def producer_settings(args: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "acks": args.acks,
        "compression.type": args.compression,
        # librdkafka takes nothing shorter than its linger.
        "message.timeout.ms": max(int(args.timeout * 1000), LINGER_MS + 1),
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": 500_000,
        "enable.idempotence": args.idempotent,
        "message.max.bytes": 100_000_000,
    }
    partitioner = PARTITIONERS[args.partitioner]
    if partitioner is not None:
        settings["partitioner"] = partitioner
    return settings


class _Source:
    """The records asked for on the command line; a context manager, as a file may be behind it."""

    def __init__(self, records: Iterator[NewRecord], stream: IO[bytes] | None) -> None:
        self._records = records
        self._stream = stream

    def __enter__(self) -> Iterator[NewRecord]:
        return self._records

    def __exit__(self, *_: object) -> None:
        if self._stream is not None and self._stream is not sys.stdin.buffer:
            self._stream.close()


def open_source(args: argparse.Namespace) -> _Source:
    key = None if args.key is None else os.fsencode(args.key)
    if args.value is not None:
        value = None if args.null_value else os.fsencode(args.value)
        return _Source(iter([NewRecord(key, value)]), None)
    if args.file is None and args.null_value and key is not None:
        return _Source(iter([NewRecord(key, None)]), None)
    stream: IO[bytes]
    if args.file is None or args.file == "-":
        stream = sys.stdin.buffer
        if sys.stdin.isatty():
            print("one record per line, Ctrl-D ends", file=sys.stderr)
    else:
        try:
            stream = open(args.file, "rb")  # noqa: SIM115 - closed by _Source
        except OSError as error:
            raise CommandError(f"cannot read {args.file}: {error.strerror}") from None
    return _Source(parse_lines(stream, key, args.key_separator, args.null_value), stream)


def parse_lines(
    lines: Iterator[bytes] | IO[bytes], key: bytes | None, key_separator: str | None, empty_is_null: bool
) -> Iterator[NewRecord]:
    """One record per line, without its line end; the last line needs none."""
    separator = None if key_separator is None else os.fsencode(key_separator.replace("\\t", "\t"))
    for number, line in enumerate(lines, start=1):
        content = line[:-1] if line.endswith(b"\n") else line
        if separator is not None:
            key, found, content = content.partition(separator)
            if not found:
                raise CommandError(
                    f"line {number} has no key separator '{key_separator}'; nothing after it was written"
                )
        yield NewRecord(key, None if empty_is_null and not content else content)


def _wait_for_partitions(producer: Producer, args: argparse.Namespace) -> list[int]:
    """The topic's partitions; a broker that creates topics by itself does so on this question."""
    from confluent_kafka import KafkaError

    deadline = time.monotonic() + TOPIC_SECONDS_MAX
    while True:
        topic = cluster_metadata(producer, args, args.topic).topics[args.topic]
        if topic.error is None and topic.partitions:
            return sorted(topic.partitions)
        # Right after an automatic creation both are normal for a moment.
        passing = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if topic.error is not None and topic.error.code() not in passing:
            raise CommandError(f"topic {args.topic}: {describe_error(topic.error)}")
        if time.monotonic() > deadline:
            raise CommandError(unknown_topic(args.topic))
        time.sleep(0.05)


def partition_chooser(args: argparse.Namespace, partitions: list[int]) -> Callable[[], int]:
    if args.partition is not None:
        return lambda: int(args.partition)
    if args.partitioner == "round-robin":
        from itertools import cycle

        return cycle(partitions).__next__
    return lambda: PARTITION_UNASSIGNED


def _send_all(
    producer: Producer,
    args: argparse.Namespace,
    records: Iterator[NewRecord],
    headers: list[tuple[str, bytes]],
    choose: Callable[[], int],
    deliveries: Deliveries,
) -> None:
    extra: dict[str, Any] = {"on_delivery": deliveries.settle}
    if headers:
        extra["headers"] = headers
    if args.timestamp is not None:
        extra["timestamp"] = parse_timestamp(args.timestamp)
    poller = _Poller(producer)
    poller.start()
    try:
        for record in records:
            partition = choose()
            while True:
                try:
                    producer.produce(args.topic, value=record.value, key=record.key, partition=partition, **extra)
                    break
                except BufferError:
                    # The queue is full: wait until the broker has taken some.
                    time.sleep(0.01)
            if deliveries.failure is not None or poller.failure is not None:
                break
    except KeyboardInterrupt:
        # What was handed over gets a moment to arrive; a broker that is gone does not hold the user.
        producer.flush(INTERRUPT_FLUSH_SECONDS)
        producer.purge()
        raise
    finally:
        poller.end()
        while len(producer):
            producer.flush(0.2)
            deliveries.progress.update(deliveries.count)
    if poller.failure is not None:
        raise poller.failure


class _Poller(threading.Thread):
    """Reports acknowledgements while the command waits for the next line of its input."""

    def __init__(self, producer: Producer) -> None:
        super().__init__(name="tidelog-produce-poller", daemon=True)
        self._producer = producer
        self._ending = False
        self.failure: Exception | None = None
        """What a report failed with, such as a reader that went away."""

    def run(self) -> None:
        try:
            while not self._ending:
                if self._producer.poll(0.05):
                    sys.stdout.flush()
        except Exception as error:
            self.failure = error

    def end(self) -> None:
        """Returns when no report can come from this thread any more."""
        self._ending = True
        self.join()


class Deliveries:
    """What became of the records: counted per partition, printed as they are acknowledged."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._topic: str = args.topic
        self._json: bool = args.json
        self._quiet: bool = args.quiet
        self._started = time.monotonic()
        self.count = 0
        self.failed = 0
        self.failure: str | None = None
        self.size_bytes = 0
        self.offsets: dict[int, list[int]] = {}
        """Partition -> [records, first offset, last offset]."""
        self._on_terminal = sys.stdout.isatty()
        self.progress = Progress(f"produced to {args.topic}:", enabled=not args.quiet)

    def settle(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.failure = self.failure or describe_error(error)
            return
        partition, offset = message.partition() or 0, message.offset()
        known = -1 if offset is None or offset < 0 else offset
        self.count += 1
        self.size_bytes += len(message) + len(message.key() or b"")
        entry = self.offsets.setdefault(partition, [0, known, known])
        entry[0] += 1
        entry[2] = max(entry[2], known)
        self._print_one(partition, known, message)
        if self.count > SHOWN_RECORDS_MAX:
            self.progress.update(self.count)

    def _print_one(self, partition: int, offset: int, message: Message) -> None:
        if self._quiet:
            return
        shown = None if offset < 0 else offset
        if self._json:
            document = {
                "topic": self._topic,
                "partition": partition,
                "offset": shown,
                "timestamp": message.timestamp()[1] if offset >= 0 else None,
            }
            sys.stdout.write(json.dumps(document) + "\n")
        elif self.count <= SHOWN_RECORDS_MAX or not self._on_terminal:
            sys.stdout.write(f"{self._topic} partition {partition} offset {'unknown' if shown is None else shown}\n")

    def report(self) -> None:
        """The summary, on standard error unless a terminal shows all; one record or none need none."""
        if self._quiet or self._json or self.count < 2:
            return
        seconds = time.monotonic() - self._started
        if self._on_terminal and self.count > SHOWN_RECORDS_MAX:
            print("...")
            rows = [
                [partition, count, *(None if offset < 0 else offset for offset in (first, last))]
                for partition, (count, first, last) in sorted(self.offsets.items())
            ]
            print_table([Column(name, right=True) for name in ("partition", "records", "first", "last")], rows)
        note(
            f"{format_count(self.count)} records, {format_bytes(self.size_bytes)}, to {self._topic} in "
            f"{format_seconds(seconds)}: {format_rate(self.count, seconds)}"
        )

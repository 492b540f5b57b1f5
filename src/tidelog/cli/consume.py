"""`tidelog consume`: reads records of a topic, to the end of the log or for ever.

Without --group partitions are assigned by hand and nothing is committed: looking changes nothing. The end is where the
log ended when the command started, so it also ends on a topic that is being written to; --follow waits for more.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.clients import (
    connect_admin,
    connect_consumer,
    describe_error,
    partition_ids,
    query_bounds,
    query_offsets,
)
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Progress, format_count, note
from tidelog.cli.record_format import make_formatter
from tidelog.cli.times import parse_time

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition
    from confluent_kafka.admin import AdminClient

RECORDS_PER_CALL_MAX = 10_000
WAIT_SECONDS = 0.2
STALL_SECONDS_MAX = 30.0
"""Without --follow: no record and no end of a partition for so long means the broker stopped answering."""


OUTAGE_SECONDS = 30.0


class Start(NamedTuple):
    """Where reading begins: at an offset, at an end of the log, so many before the end, or at a time."""

    kind: str
    """earliest, latest, offset, last or time."""
    number: int = 0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "consume",
        help="read records of a topic",
        description="Reads a topic to its end (or for ever with --follow) and prints the records. Order holds within a "
        "partition. Formats: text, json (a line per record), raw (values), or a pattern: %t topic, %p partition, "
        "%o offset, %T timestamp, %k key, %v value, %h headers, %K %V lengths, \\n \\t.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partition", type=int, action="append", metavar="P", help="only this one; may be given again"
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "-o",
        "--offset",
        metavar="N",
        help="first offset; earliest (default), latest, or -N for the last N of each partition",
    )
    start.add_argument(
        "--from-time", metavar="T", help="first record at or after T: ISO 8601, milliseconds, or ago (10m, 2h)"
    )
    parser.add_argument("-n", "--max", type=int, metavar="N", help="end after N records")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for new records instead of ending")
    parser.add_argument("--format", default="text", metavar="F", help="text (default), json, raw, or a pattern")
    parser.add_argument("--json", action="store_true", help="same as --format json")
    parser.add_argument(
        "--isolation",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="whether records of open and aborted transactions are seen (default read_committed)",
    )
    parser.add_argument("-g", "--group", metavar="G", help="read as a member of this group and commit what was printed")
    parser.add_argument("--protocol", choices=("classic", "consumer"), help="protocol of the group (default classic)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error but errors")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    formatter = make_formatter("json" if args.json else args.format, for_terminal=sys.stdout.isatty())
    start = parse_start(args.offset, args.from_time, int(time.time() * 1000))
    if args.max is not None and args.max < 0:
        raise UsageError("--max must not be negative")
    if args.group is None and args.protocol is not None:
        raise UsageError("--protocol is that of a group: give --group too")
    if args.group is not None:
        if not args.group:
            raise UsageError("--group needs a name")
        if args.partition or start is not None:
            raise UsageError("a group decides where to read: use --group without --partition, --offset and --from-time")
        from tidelog.cli.consume_group import run_group

        return run_group(args, formatter)
    if args.max == 0:
        return 0
    admin = connect_admin(args)
    consumer = connect_consumer(args, consumer_settings(args))
    try:
        assignment, ends = plan(admin, args, start or Start("earliest"))
        reader = Reader(args, ends)
        reader.leave_out_finished(assignment)
        if reader.is_done:
            if not args.quiet and sys.stderr.isatty():
                note(f"no records there in {args.topic}; --follow waits for them")
            return 0
        consumer.assign(assignment)
        reader.read(consumer, formatter)
    finally:
        consumer.close()
    return 0


def parse_start(offset: str | None, from_time: str | None, now_ms: int) -> Start | None:
    """What --offset or --from-time say; None when neither was given."""
    if from_time is not None:
        try:
            return Start("time", parse_time(from_time, now_ms))
        except ValueError as error:
            raise UsageError(f"--from-time: {error}") from None
    if offset is None:
        return None
    text = offset.strip().lower()
    if text in ("earliest", "beginning"):
        return Start("earliest")
    if text in ("latest", "end"):
        return Start("latest")
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"--offset is a number, earliest, latest or -N for the last N, got {offset!r}") from None
    return Start("last", -number) if text.startswith("-") else Start("offset", number)


def consumer_settings(args: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {
        # librdkafka demands a group id; by hand-made assignment it is never used.
        "group.id": args.group or "tidelog-cli",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": args.isolation,
        "fetch.wait.max.ms": 500 if args.follow else 100,
        "queued.min.messages": 100_000,
        "fetch.message.max.bytes": 4 * 1024 * 1024,
        "check.crcs": True,
    }
    if args.follow and not args.quiet:
        settings["error_cb"] = Outage()
    return settings


class Outage:
    """Reports that no broker answers, at once and then now and then: the command would wait for ever in silence."""

    def __init__(self) -> None:
        self._said_s = -OUTAGE_SECONDS

    def __call__(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        now_s = time.monotonic()
        if error.code() == KafkaError._ALL_BROKERS_DOWN and now_s - self._said_s >= OUTAGE_SECONDS:
            self._said_s = now_s
            note("no broker answers; waiting for one")


def plan(
    admin: AdminClient, args: argparse.Namespace, start: Start
) -> tuple[list[TopicPartition], dict[int, int] | None]:
    """Where each partition is read from, and where it ends now; no ends with --follow."""
    from confluent_kafka import TopicPartition

    present = partition_ids(admin, args, args.topic)
    chosen = sorted(set(args.partition)) if args.partition else present
    missing = [partition for partition in chosen if partition not in present]
    if missing:
        raise CommandError(f"topic {args.topic} has no partition {missing[0]}; it has {len(present)}")
    pairs = [(args.topic, partition) for partition in chosen]
    bounds = query_bounds(admin, pairs, read_committed=args.isolation == "read_committed")
    by_time: dict[tuple[str, int], int] = {}
    if start.kind == "time":
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.for_timestamp(start.number)
        by_time = query_offsets(admin, [TopicPartition(*pair) for pair in pairs], spec)
    assignment = []
    for pair in pairs:
        first, end = bounds[pair]
        offset = start_offset(start, first, end, by_time.get(pair, -1))
        if start.kind == "offset" and not first <= offset <= end:
            raise CommandError(f"{pair[0]}-{pair[1]} has no offset {offset}; it has {first} to {end}")
        assignment.append(TopicPartition(*pair, offset))
    ends = None if args.follow else {pair[1]: bounds[pair][1] for pair in pairs}
    return assignment, ends


def start_offset(start: Start, first: int, end: int, by_time: int) -> int:
    """The offset in a log that holds `first` up to, not including, `end`."""
    match start.kind:
        case "earliest":
            return first
        case "latest":
            return end
        case "last":
            return max(first, end - start.number)
        case "time":
            return end if by_time < 0 else by_time
        case _:
            return start.number


class Reader:
    """Reads assigned partitions and writes records until all ends are reached, --max is, or it is interrupted."""

    def __init__(self, args: argparse.Namespace, ends: dict[int, int] | None) -> None:
        self._topic: str = args.topic
        self._max: int | None = args.max
        self._ends = ends
        self.count = 0
        # A terminal that shows the records themselves needs no progress.
        self._talks = not args.quiet and sys.stderr.isatty()
        self._progress = Progress(f"read from {args.topic}:", enabled=not args.quiet and not sys.stdout.isatty())

    @property
    def is_done(self) -> bool:
        if self._max is not None and self.count >= self._max:
            return True
        return self._ends is not None and not self._ends

    def leave_out_finished(self, assignment: list[TopicPartition]) -> None:
        """Partitions with nothing to read are at their end already."""
        for partition in assignment:
            self._pass(partition.partition, partition.offset)

    def read(self, consumer: Consumer, formatter: Any) -> None:
        heard_at = time.monotonic()
        try:
            while not self.is_done:
                wanted = RECORDS_PER_CALL_MAX
                if self._max is not None:
                    wanted = min(wanted, self._max - self.count)
                messages = consumer.consume(wanted, timeout=WAIT_SECONDS)
                now = time.monotonic()
                if messages:
                    heard_at = now
                    self.write(messages, formatter)
                elif self._ends is not None and now - heard_at > STALL_SECONDS_MAX:
                    raise CommandError(
                        f"no answer for {STALL_SECONDS_MAX:.0f} s after {format_count(self.count)} records"
                    )
        finally:
            self._progress.close()
        if self._talks:
            note(f"{format_count(self.count)} records of {self._topic}")

    def write(self, messages: list[Message], formatter: Any) -> None:
        shown = []
        for message in messages:
            partition = message.partition() or 0
            error = message.error()
            if error is not None:
                self._take_error(error, partition)
                continue
            if self._ends is not None and partition not in self._ends:
                continue
            offset = message.offset() or 0
            if self._ends is None or offset < self._ends[partition]:
                shown.append(formatter(message))
                self.count += 1
            self._pass(partition, offset + 1)
        sys.stdout.buffer.write(b"".join(shown))
        sys.stdout.buffer.flush()
        self._progress.update(self.count)

    def _take_error(self, error: Any, partition: int) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._PARTITION_EOF:
            # Offsets before the end may be missing (compaction, transaction markers): this is the end all the same.
            if self._ends is not None:
                self._ends.pop(partition, None)
        elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            raise CommandError(f"{self._topic}-{partition}: {describe_error(error)}")

    def _pass(self, partition: int, position: int) -> None:
        if self._ends is not None and position >= self._ends.get(partition, position + 1):
            del self._ends[partition]

"""`tidelog pipeline init`: a pipeline file to start from, written from the records of a topic. It needs no Spark."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.clients import connect_admin, connect_consumer, describe_error, partition_ids, query_bounds
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError
from tidelog.cli.output import note

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

    from tidelog.pipelines.spec.sample import Findings

SAMPLE_RECORDS_MAX = 400
"""Half of them from the start of the partitions, half from the end."""

PARTITIONS_MAX = 50
"""Of a topic with more, so many are looked into, evenly spread."""

READ_SECONDS_MAX = 15.0
WAIT_SECONDS = 0.2


def add_init_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "init",
        help="write a file to start from, from the records of a topic",
        description="Reads some of the first and of the newest records of a topic, finds out what they are, and writes "
        "a commented pipeline file that runs: format and schema, dead letters, a step and a sink. Needs no Spark.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--to", metavar="FILE.yaml", help="where to (default TOPIC.yaml here; - is standard output)")
    parser.add_argument("--sink", choices=("table", "topic"), default="table", help="where rows go (default table)")
    parser.add_argument("--force", action="store_true", help="even if the file is there; it is replaced")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.pipelines.spec.first_file import write

    to_stdout = args.to == "-"
    path = Path(f"{args.topic}.yaml" if to_stdout or not args.to else args.to)
    if not to_stdout:
        _check_target(path, force=args.force)
    admin = connect_admin(args)
    partitions = partition_ids(admin, args, args.topic)
    findings = _look(args, admin, partitions)
    shown = shlex.quote(str(path)) if str(path).isprintable() else "FILE"
    text = write(args.topic, findings, sink=args.sink, partitions=len(partitions), file=shown)
    if to_stdout:
        sys.stdout.write(text)
        return 0
    _save(path, text, force=args.force)
    print(f"{path}: {_describe(findings)}")
    note(f"look into it, then: tidelog pipeline run {shown}")
    return 0


def _check_target(path: Path, *, force: bool) -> None:
    """Before a broker is asked: what is there already is not overwritten by mistake."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory; name a file with --to")
    if path.exists() and not force:
        raise CommandError(_exists(path))


def _save(path: Path, text: str, *, force: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that has come in the meantime is refused as well.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if path.is_file():
            raise CommandError(_exists(path)) from None
        raise CommandError(f"{path}: cannot be written: {error.strerror}") from None


def _exists(path: Path) -> str:
    return f"{path} is there already; --force replaces it, --to names another file"


def _describe(findings: Findings) -> str:
    from tidelog.pipelines.spec.inference import fields_of

    if not findings.records:
        return "the topic has no records yet, so the format is a guess"
    what = findings.format
    if what == "json":
        count = len(fields_of(findings.schema)[0])
        what = f"JSON with {count} field{'s' if count != 1 else ''}"
    unfit = f", {findings.unfit} of them something else" if findings.unfit else ""
    records = f"{findings.records} record{'s' if findings.records != 1 else ''}"
    return f"{what}, found in {records}{unfit}"


# -- the sample --------------------------------------------------------------------------------------------------------


def _look(args: argparse.Namespace, admin: AdminClient, partitions: list[int]) -> Findings:
    from tidelog.pipelines.spec.sample import judge

    step = max(1, -(-len(partitions) // PARTITIONS_MAX))
    chosen = partitions[::step]
    each = max(1, SAMPLE_RECORDS_MAX // 2 // len(chosen))
    bounds = query_bounds(admin, [(args.topic, number) for number in chosen], read_committed=True)
    ranges = {number: bounds[args.topic, number] for number in chosen}
    consumer = connect_consumer(
        args,
        {
            "group.id": "tidelog-cli",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        },
    )
    try:
        first = _read(consumer, args.topic, {n: (begin, end) for n, (begin, end) in ranges.items()}, each)
        # Not what the first half has seen already.
        rest = {n: (max(first.position(n, begin), end - each), end) for n, (begin, end) in ranges.items()}
        last = _read(consumer, args.topic, rest, each)
    finally:
        consumer.close()
    records = [*first.records, *last.records]
    return judge([record.key() for record in records], [record.value() for record in records])


class _Read:
    """Records of some partitions, at most so many of each."""

    def __init__(self) -> None:
        self.records: list[Message] = []
        self._positions: dict[int, int] = {}

    def add(self, record: Message) -> None:
        self.records.append(record)
        self._positions[record.partition() or 0] = (record.offset() or 0) + 1

    def position(self, partition: int, begin: int) -> int:
        """Behind the last record that was read."""
        return self._positions.get(partition, begin)


def _read(consumer: Consumer, topic: str, ranges: dict[int, tuple[int, int]], each: int) -> _Read:
    from confluent_kafka import KafkaError, TopicPartition

    found = _Read()
    missing = {number: each for number, (begin, end) in ranges.items() if begin < end}
    consumer.assign([TopicPartition(topic, number, ranges[number][0]) for number in missing])
    deadline_s = time.monotonic() + READ_SECONDS_MAX
    while missing and time.monotonic() < deadline_s:
        for message in consumer.consume(SAMPLE_RECORDS_MAX, timeout=WAIT_SECONDS):
            number, error = message.partition() or 0, message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    missing.pop(number, None)
                elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    raise CommandError(f"{topic}-{number}: {describe_error(error)}")
            elif number in missing:
                found.add(message)
                missing[number] -= 1
                if not missing[number] or (message.offset() or 0) + 1 >= ranges[number][1]:
                    del missing[number]
    if missing and not found.records:
        raise CommandError(f"{topic}: no record came within {READ_SECONDS_MAX:.0f} s; try again")
    return found

"""`tidelog bench`: measures any broker with librdkafka: writing, reading, one record at a time, and end to end.

It makes its own topic and removes it afterwards. What is measured includes this Python client; at high rates the client
is what limits, so figures of two brokers compare only when taken on the same machine with the same arguments.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.cli.bench_cases import (
    Latencies,
    Throughput,
    measure_consume,
    measure_end_to_end,
    measure_produce,
    measure_single,
)
from tidelog.cli.clients import ANSWER_SECONDS_MAX, connect_admin, result_of
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Column, format_bytes, format_count, note, print_json, print_table
from tidelog.cli.signals import unwind_on_sigterm

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC_PREFIX = "tidelog-bench"
CASES = ("produce", "consume", "single", "end-to-end")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure a broker: throughput and latency",
        description="Measures a broker: writing and reading many records, latency of one record at a time (acks=1), "
        "and latency from writing to reading at a steady rate. Works with any Kafka.",
    )
    parser.add_argument(
        "--topic", metavar="T", help="use this topic and keep it (default: a new one, removed in the end)"
    )
    parser.add_argument(
        "--partitions", type=int, default=1, metavar="N", help="partitions of the new topic (default 1)"
    )
    parser.add_argument(
        "--records", type=int, default=500_000, metavar="N", help="records to write and read (default 500,000)"
    )
    parser.add_argument("--size", type=int, default=100, metavar="B", help="bytes of a value (default 100)")
    parser.add_argument(
        "--acks", choices=("0", "1", "all"), default="1", help="required acknowledgements when writing many (default 1)"
    )
    parser.add_argument("--batch-size", type=int, default=131_072, metavar="B", help="largest batch (default 131,072)")
    parser.add_argument(
        "--linger-ms", type=float, default=5.0, metavar="MS", help="milliseconds to wait to fill a batch (default 5)"
    )
    parser.add_argument("--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none")
    parser.add_argument("--producers", type=int, default=1, metavar="N", help="clients that write at once (default 1)")
    parser.add_argument("--idempotent", action="store_true", help="idempotent producers (acks=all)")
    parser.add_argument(
        "--singles", type=int, default=2000, metavar="N", help="records written one at a time (default 2,000)"
    )
    parser.add_argument(
        "--rate", type=int, default=1000, metavar="N", help="records per second end to end (default 1,000)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="duration of the end-to-end case (default 3)"
    )
    parser.add_argument(
        "--case", action="append", choices=CASES, help="only this case; may be given again (default all)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    check_arguments(args)
    unwind_on_sigterm()
    admin = connect_admin(args)
    topic = args.topic or f"{TOPIC_PREFIX}-{os.getpid()}-{int(time.time() * 1000) % 1_000_000}"
    if not args.topic:
        _create(admin, topic, args.partitions)
    results: dict[str, Throughput | Latencies] = {}
    try:
        for case in CASES:
            if case in (args.case or CASES):
                results[case] = _RUN[case](args, topic)
    finally:
        if not args.topic:
            _delete(admin, topic)
    if args.json:
        print_json(
            {
                "bootstrap": args.bootstrap,
                "records": args.records,
                "size_bytes": args.size,
                "acks": "all" if args.idempotent else args.acks,
                "batch_size_bytes": args.batch_size,
                "compression": args.compression,
                "producers": args.producers,
                "partitions": args.partitions,
                "results": {case: result.as_document() for case, result in results.items()},
            }
        )
    else:
        _print_results(args, results)
    return 0


def check_arguments(args: argparse.Namespace) -> None:
    for name in ("records", "size", "partitions", "batch_size", "producers", "singles", "rate"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    if args.seconds <= 0:
        raise UsageError("--seconds must be positive")
    if args.case and "consume" in args.case and "produce" not in args.case and not args.topic:
        raise UsageError("--case consume needs --case produce too, or a --topic with records")


_RUN: dict[str, Callable[[argparse.Namespace, str], Throughput | Latencies]] = {
    "produce": measure_produce,
    "consume": measure_consume,
    "single": measure_single,
    "end-to-end": measure_end_to_end,
}


def _create(admin: AdminClient, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import NewTopic

    new = NewTopic(topic, num_partitions=partitions, replication_factor=-1)
    result_of(
        admin.create_topics([new], request_timeout=ANSWER_SECONDS_MAX, operation_timeout=ANSWER_SECONDS_MAX)[topic],
        f"cannot create topic {topic}",
    )


def _delete(admin: AdminClient, topic: str) -> None:
    try:
        result_of(admin.delete_topics([topic], request_timeout=ANSWER_SECONDS_MAX)[topic], f"topic {topic} stays")
    except CommandError as error:
        # The measurements are worth more than a clean broker.
        note(f"tidelog: {error}")


def _print_results(args: argparse.Namespace, results: dict[str, Throughput | Latencies]) -> None:
    throughputs = [(case, result) for case, result in results.items() if isinstance(result, Throughput)]
    latencies = [(case, result) for case, result in results.items() if isinstance(result, Latencies)]
    print(
        f"{args.bootstrap}: {format_count(args.records)} records of {format_bytes(args.size)}, "
        f"acks {'all' if args.idempotent else args.acks}, batches up to {format_bytes(args.batch_size)}, "
        f"compression {args.compression}, producers {args.producers}"
    )
    if throughputs:
        print()
        print_table(
            [
                Column("throughput"),
                *(Column(name, right=True) for name in ("records", "seconds", "records/s", "MiB/s")),
            ],
            [
                [
                    case,
                    result.records,
                    f"{result.seconds:.2f}",
                    int(result.records_per_second),
                    f"{result.mib_per_second:.1f}",
                ]
                for case, result in throughputs
            ],
        )
    if latencies:
        print()
        print_table(
            [
                Column("latency, ms"),
                *(Column(name, right=True) for name in ("records", "p50", "p95", "p99", "p99.9", "max")),
            ],
            [[case, result.count, *(f"{value:.2f}" for value in result.summary_ms())] for case, result in latencies],
        )

"""`tidelog replay`: the records of an archive back into a topic, in order, exactly once."""

from __future__ import annotations

import argparse
import threading
import time

from tidelog.cli.activity import Activity
from tidelog.cli.archive import table_path
from tidelog.cli.clients import parse_pairs
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import format_count, format_rate, format_seconds, print_json
from tidelog.cli.pipeline import explained
from tidelog.cli.signals import end_in_good_order
from tidelog.cli.times import parse_time


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="write an archive back to a topic",
        description="Writes the records of a table made by `tidelog archive` to a topic: keys, values, headers and "
        "timestamps as they were, the order of each key kept, each record once. An interrupted replay goes on.",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--to", required=True, metavar="TOPIC")
    parser.add_argument(
        "--topic", action="append", default=[], metavar="T", help="only records that came from T; may be repeated"
    )
    parser.add_argument("--from-time", metavar="T", help="only records from T on: ISO 8601, milliseconds, or ago (2h)")
    parser.add_argument("--until-time", metavar="T", help="only records before T")
    parser.add_argument("--rate", type=int, default=0, metavar="N", help="at most N records per second")
    parser.add_argument("--keep-partitions", action="store_true", help="each record to the partition it came from")
    parser.add_argument(
        "--checkpoint", default="", metavar="PATH", help="directory of the state (default inside the table)"
    )
    parser.add_argument("--master", metavar="URL", help="the Spark master (default TIDELOG_SPARK_MASTER or local[*])")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.cli.spark_jobs import job_session
    from tidelog.pipelines.jobs.replay import Replay, check_replay, replay

    if args.rate < 0:
        raise UsageError("--rate must not be negative")
    path = table_path(args.path)
    request = Replay(
        path=path,
        topic=args.to,
        source_topics=tuple(args.topic),
        from_ms=_time(args.from_time, "--from-time"),
        until_ms=_time(args.until_time, "--until-time"),
        rate=args.rate,
        keep_partitions=args.keep_partitions,
        checkpoint=args.checkpoint and table_path(args.checkpoint, always=True),
        client=parse_pairs(args.client_settings, "-X"),
    )
    with explained(args.profile):
        check_replay(request, bootstrap=args.bootstrap)
    stop = threading.Event()
    with (
        explained(args.profile),
        Activity(enabled=not args.json) as activity,
        job_session("replay", path, args.master, activity) as spark,
    ):
        activity("reading the archive")
        started = time.monotonic()
        progress = activity.rows("replayed")
        with end_in_good_order(stop.set):
            done = replay(spark, request, bootstrap=args.bootstrap, progress=progress, stop=stop)
        seconds = time.monotonic() - started
    if args.json:
        print_json(
            {"rows": done.rows, "resumed": done.resumed, "complete": done.complete, "seconds": round(seconds, 3)}
        )
    else:
        again = " (with what an interrupted replay had written)" if done.resumed else ""
        rate = format_rate(done.rows, seconds)
        print(f"{format_count(done.rows)} records{again} to {args.to} in {format_seconds(seconds)}, {rate}")
    if not done.complete:
        raise CommandError("interrupted; the same command goes on from here")
    return 0


def _time(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return parse_time(text, int(time.time() * 1000))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None

"""`tidelog compact`: many small files of a table into few large ones."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tidelog.cli.activity import Activity
from tidelog.cli.archive import table_path
from tidelog.cli.errors import UsageError
from tidelog.cli.output import format_count, print_json
from tidelog.cli.pipeline import explained


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "compact",
        help="merge the small files of a table",
        description="Rewrites small files of a Parquet, Delta or Iceberg table into larger ones; rows stay the same. "
        "Streams that read a Parquet directory take the new files for new rows.",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--target-mb", type=int, default=128, metavar="N", help="size of a large file (default 128)")
    parser.add_argument("--master", metavar="URL", help="the Spark master (default TIDELOG_SPARK_MASTER or local[*])")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.cli.spark_jobs import job_session
    from tidelog.pipelines.jobs.compact import check_compact, compact
    from tidelog.pipelines.spark.session import choose_master

    if args.target_mb < 1:
        raise UsageError("--target-mb must be at least 1")
    path = table_path(args.path)
    with explained():
        check_compact(path, choose_master(args.master))
    with (
        explained(),
        Activity(enabled=not args.json) as activity,
        job_session("compact", path, args.master, activity) as spark,
    ):
        activity("merging files")
        done = compact(spark, path, target_bytes=args.target_mb * 1024 * 1024)
    if args.json:
        print_json(asdict(done))
    elif done.files_removed:
        print(f"{format_count(done.files_removed)} files became {format_count(done.files_added)} in {path}")
    else:
        print(f"nothing to do: {path} has no small files to merge")
    return 0

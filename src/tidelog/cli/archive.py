"""`tidelog archive`: topics into a table, every record whole, exactly once; resumes where it was."""

from __future__ import annotations

import argparse
from pathlib import Path

from tidelog.cli.clients import parse_pairs
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import UsageError
from tidelog.cli.pipeline import add_run_arguments, explained, run_with_view

FORMATS = ("parquet", "delta", "iceberg")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "archive",
        help="write topics to a table (Parquet, Delta, Iceberg)",
        description="Writes key, value, headers, topic, partition, offset and timestamp of every record to a table "
        "partitioned by topic and date. Run again it adds what is new; each record is there once.",
    )
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "--to", required=True, metavar="PATH", help="directory or address of the table, or an Iceberg name"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="", help="format of the table (default: its own, else parquet)"
    )
    parser.add_argument("--follow", metavar="INTERVAL", help="go on for ever, writing this often (such as 1m)")
    parser.add_argument(
        "--start", default="earliest", metavar="S", help="where the first run starts: earliest, latest or a time"
    )
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="at most N records per batch")
    parser.add_argument(
        "--checkpoint", default="", metavar="PATH", help="directory of the state (default inside the table)"
    )
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="go on when records were deleted before they were archived"
    )
    add_run_arguments(parser)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.pipelines.jobs.archive import Archive, archive_pipeline
    from tidelog.pipelines.spec.durations import parse_duration_ms

    if args.batch < 0:
        raise UsageError("--batch must not be negative")
    try:
        interval_ms = max(parse_duration_ms(args.follow), 1) if args.follow else 0
    except ValueError as error:
        raise UsageError(f"--follow: {error}") from None
    with explained(args.profile):
        pipeline = archive_pipeline(
            Archive(
                topics=args.topics,
                path=table_path(args.to),
                format=args.format,
                checkpoint=args.checkpoint and table_path(args.checkpoint, always=True),
                interval_ms=interval_ms,
                start=args.start,
                records_per_batch_max=args.batch,
                on_data_loss_continue=args.allow_data_loss,
                client=parse_pairs(args.client_settings, "-X"),
            )
        )
    return run_with_view(args, pipeline, args.bootstrap)


def table_path(text: str, *, always: bool = False) -> str:
    """An absolute path for a directory of this machine; addresses and names of a catalog stay as they are."""
    is_catalog_name = "/" not in text and "." in text.strip(".") and not Path(text).exists() and not always
    return text if "://" in text or is_catalog_name else str(Path(text).absolute())

"""`tidelog audit`: is everything of a topic in a table, once and unchanged? Exit code 0 when it is, 1 when not."""

from __future__ import annotations

import argparse

from tidelog.cli.activity import Activity
from tidelog.cli.archive import table_path
from tidelog.cli.clients import parse_pairs
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import EXIT_FAILURE
from tidelog.cli.output import Column, format_count, print_json, print_table
from tidelog.cli.pipeline import explained


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "audit",
        help="compare a topic with its archive",
        description="Compares the records of a topic with the rows of an archive, partition by partition: counts, gaps "
        "in the offsets, checksums. Differences are listed and make the command fail.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument(
        "--allow-behind", action="store_true", help="records newer than the table's last are no difference"
    )
    parser.add_argument("--master", metavar="URL", help="the Spark master (default TIDELOG_SPARK_MASTER or local[*])")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.cli.spark_jobs import job_session
    from tidelog.pipelines.jobs.audit import audit, check_audit

    path = table_path(args.path)
    client = parse_pairs(args.client_settings, "-X")
    with explained(args.profile):
        check_audit(args.topic, path, bootstrap=args.bootstrap, client=client)
    with (
        explained(args.profile),
        Activity(enabled=not args.json) as activity,
        job_session("audit", path, args.master, activity) as spark,
    ):
        found = audit(spark, args.topic, path, bootstrap=args.bootstrap, client=client, progress=activity)
    well = found.is_same or (args.allow_behind and all(partition.is_same for partition in found.partitions))
    if args.json:
        print_json({**found.as_document(), "ok": well})
        return 0 if well else EXIT_FAILURE
    titles = ("partition", "log", "table", "offsets", "gaps", "older", "checksum")
    columns = [Column(title, right=True) for title in titles]
    rows = [
        [
            partition.partition,
            partition.log.rows,
            partition.table.rows,
            f"{partition.log.first}..{partition.log.last}" if partition.log.rows else "-",
            partition.log.gaps,
            partition.older,
            partition.log.checksum,
            partition.verdict,
        ]
        for partition in found.partitions
    ]
    print_table([*columns, Column("verdict")], rows)
    for difference in found.differences:
        print(f"{args.topic}-{difference.partition} offset {format_count(difference.offset)}: {difference.what}")
    if not found.differences:
        print("The table holds what the log holds." if well else "The table is behind the log; archive once more.")
    return 0 if well else EXIT_FAILURE

"""What `tidelog demo` prints about its pipeline: the windows, the queries, the audit, and where everything is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.cli.output import Column, format_count, print_fields, print_table
from tidelog.cli.pipeline_view import print_statuses

if TYPE_CHECKING:
    from tidelog.cli.demo_pipeline import PipelineHalf

WINDOWS_SHOWN = 12


def print_outcome(half: PipelineHalf) -> None:
    assert half.audit is not None
    print()
    shown = half.windows[-WINDOWS_SHOWN:]
    highest = max((window["amount_cents"] for window in half.windows), default=0) or 1
    rows = [
        [
            window["minute"],
            window["orders"],
            f"{window['amount_cents'] / 100:,.2f}",
            "█" * max(1, round(30 * window["amount_cents"] / highest)),
        ]
        for window in shown
    ]
    title = f"revenue per minute (the last {len(shown)} of {len(half.windows)} windows)"
    columns = [Column("minute"), Column("orders", right=True), Column("revenue", right=True), Column("")]
    print_table(columns, rows, title=title)
    print()
    print_statuses([status.as_document() for status in half.statuses], errors=True)
    print()
    print_table(
        [Column("partition", right=True), Column("log", right=True), Column("archive", right=True), Column("audit")],
        [
            [partition.partition, partition.log.rows, partition.table.rows, partition.verdict]
            for partition in half.audit.partitions
        ],
    )
    print()
    directory = half.file.parent
    print_fields(
        [
            ("page", os.path.relpath(half.page)),
            ("chart", os.path.relpath(half.chart)),
            ("pipeline", os.path.relpath(half.file)),
            ("table", f"{os.path.relpath(directory / 'orders-table')} ({format_count(half.table_rows)} rows, Parquet)"),
            ("archive", os.path.relpath(directory / "archive")),
        ]
    )

"""How a running pipeline is shown: a live table on a terminal, plain lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tidelog.cli.output import Column, align, format_bytes, format_count, note, print_table

if TYPE_CHECKING:
    from tidelog.pipelines.run.progress import QueryStatus
    from tidelog.pipelines.spec.model import Pipeline

PLAIN_SECONDS = 10.0
"""Between two rounds of plain lines."""

COLUMNS = [
    Column("query"),
    Column("state"),
    Column("rows in", right=True),
    Column("rows out", right=True),
    Column("rows/s", right=True),
    Column("lag", right=True),
    Column("age", right=True),
    Column("batch", right=True),
    Column("took", right=True),
    Column("state size", right=True),
    Column("watermark"),
]


def cells(status: dict[str, Any]) -> list[str]:
    """One row of the table, from the document of a status."""
    from tidelog.pipelines.spec.durations import format_duration

    lag, age_ms = status["lag_offsets"], status["lag_ms"]
    state_rows = status["state_rows"]
    restarts = f" ({status['restarts']} restarts)" if status["restarts"] else ""
    return [
        status["name"],
        f"{status['state']}{restarts}",
        format_count(status["rows_in"]),
        format_count(status["rows_out"]),
        format_count(round(status["rows_per_second"])) if status["batches"] else "-",
        "-" if lag is None else format_count(lag),
        "-" if age_ms is None else format_duration(age_ms),
        str(status["batch_id"]) if status["batch_id"] >= 0 else "-",
        format_duration(status["batch_duration_ms"]) if status["batches"] else "-",
        f"{format_count(state_rows)} rows, {format_bytes(status['state_bytes'])}" if state_rows else "-",
        status["watermark"].replace("T", " ").removesuffix(".000Z") or "-",
    ]


def remarks(status: dict[str, Any]) -> list[str]:
    """What a table has no room for."""
    found = []
    if status["rows_too_late"]:
        found.append(
            f"{status['name']}: {format_count(status['rows_too_late'])} rows came after the watermark, left out"
        )
    for rule, count in status["rule_violations"].items():
        if count:
            found.append(f"{status['name']}: rule {rule} was not met by {format_count(count)} rows")
    if status["error"] and status["state"] == "waiting":
        found.append(f"{status['name']}: {status['error']}")
    return found


def print_statuses(statuses: Sequence[dict[str, Any]]) -> None:
    print_table(COLUMNS, [cells(status) for status in statuses])
    for status in statuses:
        for remark in remarks(status):
            print(remark)
        if status["state"] == "failed":
            print(f"{status['name']}: {status['error']}")


class View:
    """Plain lines: events as they happen, the figures now and then, a table at the end."""

    def __init__(self, pipeline: Pipeline, *, quiet: bool) -> None:
        self._pipeline = pipeline
        self._quiet = quiet
        self._statuses: Sequence[QueryStatus] = ()
        self._shown_at = time.monotonic()

    def watch(self, statuses: Sequence[QueryStatus]) -> None:
        self._statuses = statuses

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def report(self, text: str) -> None:
        note(f"tidelog: {' '.join(text.split())}")

    def show_rows(self, sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        lines = align([Column(name) for name in columns], [[_shown(value) for value in row] for row in rows])
        self._print(f"{sink}, batch {batch_id}:\n" + "\n".join(lines))

    def _print(self, text: str) -> None:
        print(text, flush=True)

    def tick(self) -> None:
        if not self._quiet and time.monotonic() - self._shown_at >= PLAIN_SECONDS:
            self._shown_at = time.monotonic()
            for status in self._statuses:
                document = status.as_document()
                figures = [f"{column.title} {cell}" for column, cell in zip(COLUMNS, cells(document), strict=True)]
                note(", ".join(figures[1:]).replace("state ", f"{status.name}: ", 1))

    def finish(self, well: bool) -> None:
        if not self._quiet:
            print_statuses([status.as_document() for status in self._statuses])


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return "null" if value is None else str(value)


class TerminalView(View):
    """A table that renews itself; what happens scrolls by above it."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def report(self, text: str) -> None:
        if hasattr(self, "_console"):
            self._console.print(f"tidelog: {' '.join(text.split())}", markup=False)
        else:
            super().report(text)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False)

    def tick(self) -> None:
        return None

    def _table(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        colours = {"running": "green", "done": "cyan", "waiting": "yellow", "failed": "red"}
        table = Table(box=box.SIMPLE_HEAD, title=f"{self._pipeline.name}  (ctrl-c ends it)", title_justify="left")
        for column in COLUMNS:
            table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
        notes = []
        for status in self._statuses:
            document = status.as_document()
            row = [Text(cell) for cell in cells(document)]
            row[1].stylize(colours.get(status.state, ""))
            table.add_row(*row)
            notes += [Text(remark, style="yellow") for remark in remarks(document)]
        return Group(table, *notes)


class JsonView(View):
    """One line per event: what happened, and every query whenever it got on."""

    def __init__(self, pipeline: Pipeline, *, quiet: bool) -> None:
        super().__init__(pipeline, quiet=quiet)
        self._told: dict[str, tuple[Any, ...]] = {}

    def _emit(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}, default=str), flush=True)

    def report(self, text: str) -> None:
        self._emit("message", text=" ".join(text.split()))

    def show_rows(self, sink: str, batch_id: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            values = {
                name: value if _is_plain(value) else _shown(value) for name, value in zip(columns, row, strict=True)
            }
            self._emit("row", query=sink, batch=batch_id, row=values)

    def tick(self) -> None:
        for status in self._statuses:
            now = (status.state, status.batches, status.lag_offsets)
            if self._told.get(status.name) != now:
                self._told[status.name] = now
                self._emit("progress", **status.as_document())

    def finish(self, well: bool) -> None:
        self._emit("end", ok=well, queries=[status.as_document() for status in self._statuses])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def make_view(pipeline: Pipeline, *, as_json: bool, quiet: bool) -> View:
    if as_json:
        return JsonView(pipeline, quiet=quiet)
    if sys.stdout.isatty() and not quiet:
        return TerminalView(pipeline, quiet=quiet)
    return View(pipeline, quiet=quiet)

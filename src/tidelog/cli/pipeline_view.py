"""How a running pipeline is shown: a live table on a terminal, plain lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from tidelog.cli.output import Column, align, note
from tidelog.cli.status_table import COLUMNS, UNKNOWN, cells, remarks, table_lines
from tidelog.pipelines.run.progress import OVER

if TYPE_CHECKING:
    from tidelog.pipelines.run.progress import QueryStatus
    from tidelog.pipelines.spec.model import Pipeline

PLAIN_SECONDS = 10.0
"""Between two rounds of plain lines."""


def terminal_width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def print_statuses(statuses: Sequence[dict[str, Any]], *, errors: bool) -> None:
    """`errors`: why queries failed, too; a view has shown that already."""
    for line in table_lines(statuses, terminal_width() if sys.stdout.isatty() else None):
        print(line)
    for status in statuses:
        for remark in remarks(status):
            print(remark)
        if errors and status["state"] == "failed":
            print(f"{status['name']}: {status['error']}")


class View:
    """Plain lines: events as they happen, the figures now and then, a table at the end."""

    def __init__(self, pipeline: Pipeline, *, quiet: bool) -> None:
        self._pipeline = pipeline
        self._quiet = quiet
        self._statuses: Sequence[QueryStatus] = ()
        self._shown_at = time.monotonic()
        self._is_finished = threading.Lock()

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
                known = zip(COLUMNS, cells(document), strict=True)
                figures = [f"{column.title} {cell}" for column, cell in known if cell != UNKNOWN]
                note(", ".join(figures[1:]).replace("state ", f"{status.name}: ", 1))

    def finish(self, well: bool) -> None:
        """Shows how it ended, once."""
        if self._is_finished.acquire(blocking=False):
            self._show_end(well)

    def break_off(self) -> None:
        """The end of a run that is about to be killed; called by another thread than the one that runs it."""
        self.__exit__(None, None, None)
        for status in self._statuses:
            if status.state not in OVER:
                status.state = "stopped"
        self.finish(False)

    def _show_end(self, well: bool) -> None:
        if not self._quiet:
            print_statuses([status.as_document() for status in self._statuses], errors=False)


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
        from rich.console import Group
        from rich.text import Text

        colours = {"running": "green", "done": "cyan", "waiting": "yellow", "failed": "red"}
        documents = [status.as_document() for status in self._statuses]
        titles, *rows = table_lines(documents, self._console.width)
        lines = [Text(f"{self._pipeline.name}  (ctrl-c ends it)", style="italic"), Text(titles, style="bold")]
        for document, row in zip(documents, rows, strict=True):
            line = Text(row)
            line.highlight_words([document["state"]], colours.get(document["state"], ""))
            lines.append(line)
        lines += [Text(remark, style="yellow") for document in documents for remark in remarks(document)]
        return Group(*lines)


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

    def _show_end(self, well: bool) -> None:
        self._emit("end", ok=well, queries=[status.as_document() for status in self._statuses])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def make_view(pipeline: Pipeline, *, as_json: bool, quiet: bool) -> View:
    if as_json:
        return JsonView(pipeline, quiet=quiet)
    # rich comes with the extra for Spark; a Spark that was installed in another way has the plain view.
    if sys.stdout.isatty() and not quiet and find_spec("rich") is not None:
        return TerminalView(pipeline, quiet=quiet)
    return View(pipeline, quiet=quiet)

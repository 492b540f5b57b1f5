"""A line on a terminal that says what a command is at, for how long, and how far Spark's tasks are.

It is on standard error and rewritten in place; without a terminal there it is nothing at all.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tidelog.cli.output import format_count

RENEW_SECONDS = 0.25


class Activity:
    """`with Activity() as activity: activity("comparing")`; the line goes away at the end."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled and sys.stderr.isatty()
        self._text = ""
        self._spark: Any = None
        self._began = time.monotonic()
        self._width = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="activity", daemon=True)

    def __enter__(self) -> Self:
        if self._enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._enabled:
            self._thread.join()
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def __call__(self, text: str) -> None:
        """Says what is done from now on."""
        self._text = text

    def count_tasks(self, spark: Any) -> None:
        """From now on the tasks of this session are counted in the line."""
        self._spark = spark

    def rows(self, what: str) -> Callable[[int, int], None]:
        """A function for jobs that tell how many rows are done, of how many."""
        began = time.monotonic()

        def show(done: int, total: int) -> None:
            seconds = max(time.monotonic() - began, 1e-9)
            share = f" ({done / total:.0%})" if total else ""
            self(f"{what} {format_count(done)} of {format_count(total)}{share}, {format_count(int(done / seconds))}/s")

        return show

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            if self._text:
                seconds = time.monotonic() - self._began
                self._write(f"{self._text}{self._tasks()}, {seconds:.0f} s")

    def _tasks(self) -> str:
        """Of the stages that run now; nothing where Spark does not tell."""
        with contextlib.suppress(Exception):
            tracker = self._spark.sparkContext.statusTracker()
            stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
            if stages:
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                return f", {format_count(done)} of {format_count(total)} tasks"
        return ""

    def _write(self, text: str) -> None:
        shown = text[: max(20, shutil.get_terminal_size((80, 24)).columns - 1)]
        sys.stderr.write("\r" + shown.ljust(self._width))
        sys.stderr.flush()
        self._width = len(shown)

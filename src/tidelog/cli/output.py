"""How commands show things: tables and fields for people, JSON for programs, progress on standard error.

On a terminal tables are drawn and fit its width; into a pipe they are aligned text without decoration. Progress and
notes never touch standard output.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

PROGRESS_INTERVAL_SECONDS = 0.1


class Column(NamedTuple):
    """A column of a table; numbers are aligned to the right."""

    title: str
    right: bool = False


def print_json(document: Any) -> None:
    """One JSON document, indented."""
    print(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def print_table(columns: Sequence[Column | str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table; None is shown as a dash."""
    shown = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_drawn_table(shown, cells, title)
        return
    if title:
        print(title)
    for line in align(shown, cells):
        print(line)


def align(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a plain table: a header line and one line per row, two blanks between columns."""
    titles = [column.title for column in columns]
    widths = [max(len(row[index]) for row in [titles, *rows]) for index in range(len(columns))]
    lines = []
    for row in [titles, *rows]:
        padded = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _print_drawn_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str | None) -> None:
    import shutil

    from tidelog.cli.terminal_table import BOLD, NORMAL, draw_table, wants_style

    styled = wants_style()
    if title:
        print(f"{BOLD}{title}{NORMAL}" if styled else title)
    print()
    lines = draw_table(
        [column.title for column in columns],
        rows,
        right=[column.right for column in columns],
        width=shutil.get_terminal_size().columns,
        styled=styled,
        rule="─" if (sys.stdout.encoding or "utf-8").lower().startswith("utf") else "-",
    )
    for line in lines:
        print(line)
    print()


def print_fields(fields: Sequence[tuple[str, Any]]) -> None:
    """Names and values, one pair per line."""
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        print(f"{name:<{width}}  {_cell(value)}")


def note(text: str) -> None:
    """A remark for people, on standard error."""
    print(text, file=sys.stderr)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return format_count(value)
    return str(value)


class Progress:
    """One line on standard error that is rewritten while long work runs; silent when that is no terminal."""

    def __init__(self, label: str, total: int | None = None, *, enabled: bool = True) -> None:
        self._label = label
        self._total = total
        self._enabled = enabled and sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._width = 0

    def update(self, done: int) -> None:
        if not self._enabled:
            return
        now = time.monotonic()
        if now - self._shown_at < PROGRESS_INTERVAL_SECONDS:
            return
        self._shown_at = now
        elapsed = max(now - self._started, 1e-9)
        share = f" ({done / self._total:.0%})" if self._total else ""
        text = f"{self._label} {format_count(done)}{share}, {format_count(int(done / elapsed))}/s"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        """Clears the line."""
        if self._enabled and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def format_count(count: int) -> str:
    return f"{count:,}"


def format_bytes(size_bytes: float) -> str:
    """1536 -> '1.5 KiB'."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """0.0123 -> '12.3 ms'; 75 -> '75.0 s'."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def format_rate(count: int, seconds: float) -> str:
    """Records per second, with thousands separated."""
    return f"{format_count(int(count / seconds)) if seconds > 0 else '-'}/s"


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of an already sorted sequence lies, by the nearest rank."""
    if not ordered:
        raise ValueError("no values")
    # Rounded first: 0.07 * 100 is a little more than 7.
    rank = math.ceil(round(share * len(ordered), 6))
    return ordered[min(max(rank, 1), len(ordered)) - 1]

"""The figures of the queries of a pipeline as a table that fits a width: what matters least is left out first.

Rows are the documents of statuses (pipelines/run/progress.py). A number that is not known is a dash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.cli.output import Column, align, format_bytes, format_count

NAME_WIDTH_MIN = 12
"""A name is not shortened to less, whatever the width."""
_GAP = 2
_RANK_OF_DETAILS = 6


class Figure(NamedTuple):
    column: Column
    rank: int
    """The highest is left out first; 0 stays."""


FIGURES = (
    Figure(Column("query"), 0),
    Figure(Column("state"), 0),
    Figure(Column("rows in", right=True), 2),
    Figure(Column("rows out", right=True), 1),
    Figure(Column("rows/s", right=True), 4),
    Figure(Column("lag", right=True), 3),
    Figure(Column("age", right=True), 7),
    Figure(Column("bad", right=True), 5),
    Figure(Column("dead letters", right=True), 6),
    Figure(Column("batch", right=True), 9),
    Figure(Column("took", right=True), 8),
    Figure(Column("state size", right=True), 10),
    Figure(Column("watermark"), 11),
)
COLUMNS = [figure.column for figure in FIGURES]
UNKNOWN = "-"


def cells(status: Mapping[str, Any]) -> list[str]:
    """One row of the table, all its figures."""
    # A query that has not reported yet has no figures.
    has_reported, has_batch = status["batch_id"] >= 0, status["batches"] > 0
    letters: Mapping[str, int] = status["dead_letters"]
    state_rows = status["state_rows"]
    restarts = f" ({_number(status['restarts'], 'restart')})" if status["restarts"] else ""
    return [
        status["name"],
        f"{status['state']}{restarts}",
        _count(status["rows_in"], has_reported),
        _count(status["rows_out"], has_reported),
        _count(status["rows_per_second"], has_batch),
        _count(status["lag_offsets"]),
        _duration(status["lag_ms"]),
        _count(status["bad_records"]),
        _count(sum(letters.values()) if letters else None),
        str(status["batch_id"]) if has_reported else UNKNOWN,
        _duration(status["batch_duration_ms"] if has_batch else None),
        f"{_number(state_rows, 'row')}, {format_bytes(status['state_bytes'])}" if state_rows else UNKNOWN,
        status["watermark"].replace("T", " ").removesuffix(".000Z") or UNKNOWN,
    ]


def _number(count: int, what: str) -> str:
    return f"{format_count(count)} {what}{'' if count == 1 else 's'}"


def _count(value: float | None, known: bool = True) -> str:
    return format_count(round(value)) if known and value is not None else UNKNOWN


def _duration(value_ms: int | None) -> str:
    from tidelog.pipelines.spec.durations import format_duration

    return UNKNOWN if value_ms is None else format_duration(value_ms)


def table_lines(statuses: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    """The lines of the table, the titles first; `width` None: all columns, however wide."""
    rows = [cells(status) for status in statuses]
    shown = list(range(len(FIGURES)))
    if width is not None and rows:
        optional = [index for index, figure in enumerate(FIGURES) if figure.rank]
        telling = {index for index in optional if any(row[index] != UNKNOWN for row in rows)}
        optional.sort(key=lambda index: (index in telling, -FIGURES[index].rank))
        # Long names give way before the figures that matter most do; what says nothing of any query goes first.
        details = [index for index in optional if index not in telling or FIGURES[index].rank > _RANK_OF_DETAILS]
        _leave_out(details, shown, rows, width)
        names = max(NAME_WIDTH_MIN, width * 3 // 10)
        if _width(shown, rows) > width:
            rows = [[_shorten(row[0], names), *row[1:]] for row in rows]
        _leave_out([index for index in optional if index in shown], shown, rows, width)
    return align([COLUMNS[index] for index in shown], [[row[index] for index in shown] for row in rows])


def _leave_out(optional: Sequence[int], shown: list[int], rows: Sequence[Sequence[str]], width: int) -> None:
    """Takes columns away, in this order, until the rest fits."""
    for index in optional:
        if _width(shown, rows) <= width:
            return
        shown.remove(index)


def _width(shown: Sequence[int], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(COLUMNS[index].title), *(len(row[index]) for row in rows)) for index in shown] if rows else []
    return sum(widths) + _GAP * (len(widths) - 1)


def _shorten(text: str, width: int) -> str:
    """Both ends of a name stay: the end often tells one from another."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[-end:]}"


def remarks(status: Mapping[str, Any]) -> list[str]:
    """What a table has no room for."""
    found = []
    for topic, count in status["dead_letters"].items():
        if count:
            found.append(f"{status['name']}: {format_count(count)} dead letters are in topic {topic}")
    if status["bad_records"] and not any(status["dead_letters"].values()):
        found.append(f"{status['name']}: {format_count(status['bad_records'])} records could not be parsed, left out")
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

"""The table of queries at the widths of real terminals."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.cli.status_table import COLUMNS, cells, remarks, table_lines
from tidelog.pipelines.run.progress import ROWS_OUT, QueryStatus
from tidelog.pipelines.topics.topic_source import BAD

REPORT: dict[str, Any] = {
    "runId": "r",
    "timestamp": "t",
    "batchId": 3,
    "numInputRows": 123_456,
    "processedRowsPerSecond": 56_116.4,
    "durationMs": {"triggerExecution": 2200, "addBatch": 2000},
    "observedMetrics": {ROWS_OUT: {ROWS_OUT: 123_000}, f"{BAD}orders": {"bad": 3}},
    "stateOperators": [{"numRowsTotal": 100_000, "memoryUsedBytes": 12_345_678}],
    "eventTime": {"watermark": "2026-11-16T10:00:00.000Z"},
}


def busy(name: str) -> QueryStatus:
    status = QueryStatus(name=name, target="t", state="running", lag_offsets=12_000, lag_ms=3400)
    status.dead_letters["letters"] = 3
    status.take(REPORT)
    return status


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, "query state rows in rows out rows/s lag age bad dead letters batch took state size watermark"),
        (120, "query state rows in rows out rows/s lag age bad dead letters batch took"),
        (80, "query state rows in rows out rows/s lag bad"),
        (60, "query state rows in rows out lag"),
        (30, "query state"),
    ],
)
def test_columns_by_width(width: int, titles: str) -> None:
    names = ("customers_with_large_orders_to_topic", "customers_with_large_orders_to_table", "lake")
    lines = table_lines([busy(name).as_document() for name in names], width)
    assert " ".join(lines[0].split()) == titles
    assert width < 40 or max(map(len, lines)) <= width
    shown = [line.split()[0] for line in lines[1:]]
    assert shown[2] == "lake"
    assert len(set(shown)) == 3, "names that were shortened cannot be told apart"
    assert all(len(name) >= 12 for name in shown[:2])
    assert all("…" in name for name in shown[:2]) is (width <= 80)


def test_columns_that_say_nothing_are_left_out_first() -> None:
    status = busy("q")
    status.lag_offsets = status.lag_ms = None
    title = table_lines([status.as_document()], 100)[0]
    assert "lag" not in title
    assert "state size" in title


def test_everything_is_shown_where_there_is_no_width() -> None:
    assert table_lines([busy("q" * 100).as_document()], None)[0].split()[-1] == "watermark"
    assert table_lines([], 80)[0].startswith("query")


def figures(status: QueryStatus) -> dict[str, str]:
    return dict(zip((column.title for column in COLUMNS), cells(status.as_document()), strict=True))


def test_a_number_that_is_not_known_is_a_dash() -> None:
    assert set(list(figures(QueryStatus(name="q", target="t")).values())[2:]) == {"-"}
    # A pass over a table tells that it is done, and not how many rows it wrote.
    status = QueryStatus(name="q", target="t", state="done")
    status.take({"batchId": 0, "numInputRows": None, "durationMs": {"triggerExecution": 5, "addBatch": 5}})
    shown = figures(status)
    assert (shown["rows in"], shown["rows out"], shown["rows/s"], shown["took"]) == ("-", "-", "-", "5ms")
    # Nothing was read because there was nothing: that is known.
    status = QueryStatus(name="q", target="t", state="done")
    status.take({"batchId": 7, "numInputRows": 0, "durationMs": {}})
    assert (figures(status)["rows in"], figures(status)["rows/s"]) == ("0", "-")


def test_the_rate_of_a_query_that_is_over_is_its_average() -> None:
    status = busy("q")
    status.take({**REPORT, "batchId": 4, "numInputRows": 10, "processedRowsPerSecond": 1.0})
    assert figures(status)["rows/s"] == "1"
    status.state = "done"
    assert figures(status)["rows/s"] == f"{round(123_466 * 1000 / 4400):,}"


def test_bad_records_and_dead_letters_are_counted_and_remarked() -> None:
    status = busy("q")
    assert (figures(status)["bad"], figures(status)["dead letters"]) == ("3", "3")
    assert remarks(status.as_document()) == ["q: 3 dead letters are in topic letters"]
    status.dead_letters.clear()
    assert figures(status)["dead letters"] == "-"
    assert remarks(status.as_document()) == ["q: 3 records could not be parsed, left out"]


def test_one_is_not_written_as_many() -> None:
    status = busy("one")
    status.restarts = 1
    status.take({**REPORT, "batchId": 4, "stateOperators": [{"numRowsTotal": 1, "memoryUsedBytes": 1100}]})
    shown = cells(status.as_document())
    assert "running (1 restart)" in shown
    assert "1 row, 1.1 KiB" in shown

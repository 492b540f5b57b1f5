"""What a status makes of Spark's progress reports."""

from __future__ import annotations

from typing import Any

from tidelog.pipelines.run.progress import ROWS_OUT, RULES, QueryStatus
from tidelog.pipelines.topics.dead_letters import LETTERS

SENT = {f"{LETTERS}orders": {"orders.dead-letters": 2}, f"{LETTERS}orders_positive": {"orders.dead-letters": 1}}


def report(batch: int, **changes: Any) -> dict[str, Any]:
    return {
        "runId": "r",
        "timestamp": f"t{batch}",
        "batchId": batch,
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "durationMs": {"addBatch": 1500, "triggerExecution": 2000},
        "eventTime": {"watermark": "2026-11-16T10:00:00.000Z"},
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1}],
        "sources": [{"endOffset": {"orders": {"0": 5, "1": 7}}}],
        "observedMetrics": {ROWS_OUT: {ROWS_OUT: 9}, f"{RULES}orders_positive": {"positive": 1}, **SENT},
        **changes,
    }


def test_batches_add_up() -> None:
    status = QueryStatus(name="q", target="topic t")
    assert status.take(report(0))
    assert status.take(report(1))
    assert not status.take(report(1)), "the same report was counted twice"
    assert (status.rows_in, status.rows_out, status.batches, status.batch_id) == (20, 18, 2, 1)
    assert (status.rows_per_second, status.batch_duration_ms) == (5.0, 2000)
    assert (status.state_rows, status.state_bytes, status.rows_too_late) == (3, 100, 2)
    assert status.watermark == "2026-11-16T10:00:00.000Z"
    assert status.rule_violations == {"positive": 2}
    assert status.dead_letters == {"orders.dead-letters": 6}
    assert status.positions == {"orders": {0: 5, 1: 7}}


def test_spark_connect_reports_values_and_their_schema_apart() -> None:
    status = QueryStatus(name="q", target="topic t")
    observed = {
        name: {"values": [4], "schema": {"type": "struct", "fields": [{"name": metric, "type": "long"}]}}
        for name, metric in ((ROWS_OUT, ROWS_OUT), (f"{RULES}o_r", "r"), (f"{LETTERS}o", "o.dead-letters"))
    }
    status.take(report(0, observedMetrics=observed))
    assert (status.rows_out, status.rule_violations, status.dead_letters) == (4, {"r": 4}, {"o.dead-letters": 4})


def test_a_look_without_a_batch_changes_no_figures() -> None:
    status = QueryStatus(name="q", target="topic t")
    status.take(report(0))
    status.take(report(0, timestamp="later", numInputRows=0, durationMs={"triggerExecution": 1}, observedMetrics={}))
    assert (status.rows_in, status.batches, status.batch_duration_ms) == (10, 1, 2000)


def test_what_other_sources_report_is_no_position() -> None:
    status = QueryStatus(name="q", target="topic t")
    sources = [{"endOffset": {"logOffset": 3}}, {"endOffset": 7}, {"endOffset": None}, {"endOffset": {"x": {"y": 1}}}]
    status.take(report(0, sources=sources, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}, stateOperators=[]))
    assert status.positions == {}
    assert status.watermark == ""


def test_the_document_has_what_the_view_needs() -> None:
    from tidelog.cli.status_table import COLUMNS, cells, remarks

    status = QueryStatus(name="q", target="topic t")
    assert len(cells(status.as_document())) == len(COLUMNS)
    status.take(report(0))
    status.lag_offsets, status.lag_ms = 1234, 90_000
    shown = dict(zip([column.title for column in COLUMNS], cells(status.as_document()), strict=True))
    assert shown == {
        "query": "q",
        "state": "starting",
        "rows in": "10",
        "rows out": "9",
        "rows/s": "5",
        "lag": "1,234",
        "age": "1m30s",
        "bad": "-",
        "dead letters": "3",
        "batch": "0",
        "took": "2s",
        "state size": "3 rows, 100 B",
        "watermark": "2026-11-16 10:00:00",
    }
    assert remarks(status.as_document()) == [
        "q: 3 dead letters are in topic orders.dead-letters",
        "q: 1 rows came after the watermark, left out",
        "q: rule positive was not met by 1 rows",
    ]

"""What is known about a running query, folded from Spark's progress reports; for the view, the metrics and `status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tidelog.pipelines.topics.dead_letters import LETTERS
from tidelog.pipelines.topics.topic_source import BAD

QueryState = Literal["starting", "running", "waiting", "done", "failed", "stopped"]
"""waiting: failed, and will be started again; the others say themselves."""

ROWS_OUT = "tidelog_rows_out"
"""Name of the observation at the end of every query, and of its one metric."""

RULES = "tidelog_rules_"
"""Names of observations that count rows which do not meet a rule begin with this; a metric is named after its rule."""

OVER = ("done", "failed", "stopped")


@dataclass(slots=True, kw_only=True)
class QueryStatus:
    """Totals since this run began, and the figures of the last batch. None is what this query cannot tell."""

    name: str
    target: str
    state: QueryState = "starting"
    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    batch_id: int = -1
    rows_per_second: float = 0.0
    batch_duration_ms: int = 0
    busy_ms: int = 0
    """How long all batches took together."""
    bad_records: int | None = None
    """Records that could not be parsed."""
    lag_offsets: int | None = None
    lag_ms: int | None = None
    """Age of the oldest record that was not read yet."""
    state_rows: int = 0
    state_bytes: int = 0
    rows_too_late: int = 0
    watermark: str = ""
    rule_violations: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Topic of dead letters -> how many this query sent there. A batch that runs again counts once."""
    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topic -> partition -> next offset."""
    restarts: int = 0
    error: str = ""
    _seen: tuple[str, str, int] = ("", "", -1)
    _is_counted: bool = True
    """Whether the rows that were read are known."""
    _is_observed: bool = False
    """Whether the rows that were handed to the sink are known."""

    def take(self, report: Mapping[str, Any]) -> bool:
        """Adds one progress report; False when it was seen before."""
        identity = (str(report.get("runId")), str(report.get("timestamp")), int(report.get("batchId", -1)))
        if identity == self._seen:
            return False
        self._seen = identity
        self.batch_id = identity[2]
        rows = int(report.get("numInputRows") or 0)
        durations = report.get("durationMs") or {}
        if rows or "addBatch" in durations:
            self.batches += 1
            self.rows_per_second = float(report.get("processedRowsPerSecond") or 0.0)
            self.batch_duration_ms = int(durations.get("triggerExecution") or report.get("batchDuration") or 0)
            self.busy_ms += self.batch_duration_ms
            self._is_counted = self._is_counted and report.get("numInputRows") is not None
        self.rows_in += rows
        self._take_observations(report.get("observedMetrics") or {})
        self._take_state(report)
        self._take_positions(report)
        return True

    def _take_observations(self, observed: Mapping[str, Any]) -> None:
        for name, row in observed.items():
            metrics = _metrics(row)
            if name == ROWS_OUT:
                self._is_observed = True
                self.rows_out += int(metrics.get(ROWS_OUT) or 0)
            elif name.startswith(BAD):
                self.bad_records = (self.bad_records or 0) + sum(int(count or 0) for count in metrics.values())
            elif name.startswith(RULES):
                for rule, count in metrics.items():
                    self.rule_violations[rule] = self.rule_violations.get(rule, 0) + int(count or 0)
            elif name.startswith(LETTERS):
                for topic, count in metrics.items():
                    self.dead_letters[topic] = self.dead_letters.get(topic, 0) + int(count or 0)

    def _take_state(self, report: Mapping[str, Any]) -> None:
        operators = report.get("stateOperators") or []
        if operators:
            self.state_rows = sum(int(operator.get("numRowsTotal") or 0) for operator in operators)
            self.state_bytes = sum(int(operator.get("memoryUsedBytes") or 0) for operator in operators)
            self.rows_too_late += sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in operators)
        watermark = (report.get("eventTime") or {}).get("watermark")
        if watermark and not str(watermark).startswith("1970-01-01T00:00:00"):
            self.watermark = str(watermark)

    def _take_positions(self, report: Mapping[str, Any]) -> None:
        for source in report.get("sources") or []:
            offsets = source.get("endOffset")
            if not isinstance(offsets, Mapping):
                continue
            for topic, partitions in offsets.items():
                if isinstance(partitions, Mapping) and all(str(name).isdigit() for name in partitions):
                    known = self.positions.setdefault(str(topic), {})
                    known.update({int(partition): int(offset) for partition, offset in partitions.items()})

    def average_rows_per_second(self) -> float | None:
        """Over all batches of this run; None when it is not known."""
        return self.rows_in * 1000 / self.busy_ms if self.busy_ms and self._is_counted else None

    def as_document(self) -> dict[str, Any]:
        """`rows_per_second` is that of the last batch while the query runs, and the average when it is over."""
        document = {name: value for name, value in asdict(self).items() if not name.startswith("_")}
        if not self._is_counted:
            document["rows_in"] = document["rows_per_second"] = None
        if self.batches and not self._is_observed:
            document["rows_out"] = None
        if self.state in OVER:
            document["rows_per_second"] = self.average_rows_per_second()
        return document


def _metrics(row: Any) -> Mapping[str, Any]:
    """An observation as metric -> value; Spark Connect reports the values and their schema apart."""
    if not isinstance(row, Mapping):
        return {}
    schema, values = row.get("schema"), row.get("values")
    if isinstance(schema, Mapping) and isinstance(values, list):
        return dict(zip((field["name"] for field in schema["fields"]), values, strict=True))
    return row

"""The figures of a run for Prometheus, read from the statuses at every scrape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tidelog.pipelines.errors import MissingRequirement, PipelineError
from tidelog.pipelines.run.progress import QueryStatus

_COUNTERS = {
    "rows_in": "Rows read from the sources",
    "rows_out": "Rows handed to the sink",
    "batches": "Batches completed",
    "bad_records": "Records that could not be parsed",
    "rows_too_late": "Rows left out because they came after the watermark",
    "restarts": "Times a failed query was started again",
}
_GAUGES = {
    "rows_per_second": "Rows per second in the last batch; of all batches when the query is over",
    "lag_offsets": "Records in the source topics that were not read yet",
    "state_rows": "Rows in the state store",
    "state_bytes": "Memory of the state store",
}


class PipelineCollector:
    """A collector of prometheus-client."""

    def __init__(self, pipeline: str, statuses: Sequence[QueryStatus]) -> None:
        self._pipeline = pipeline
        self._statuses = statuses

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["pipeline", "query"]
        for field, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"tidelog_pipeline_{field}", text, labels=labels)
            for status in self._statuses:
                value = status.as_document()[field]
                if value is not None:
                    counter.add_metric([self._pipeline, status.name], value)
            yield counter
        for field, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"tidelog_pipeline_{field}", text, labels=labels)
            for status in self._statuses:
                value = status.as_document()[field]
                if value is not None:
                    gauge.add_metric([self._pipeline, status.name], value)
            yield gauge
        yield self._gauge("up", "1 while the query runs", lambda status: float(status.state == "running"))
        yield self._gauge(
            "batch_duration_seconds", "Duration of the last batch", lambda status: status.batch_duration_ms / 1000
        )
        yield self._gauge(
            "lag_seconds",
            "Age of the oldest record that was not read yet",
            lambda status: None if status.lag_ms is None else status.lag_ms / 1000,
        )
        yield self._gauge("watermark_timestamp_seconds", "Event time up to which rows are expected", _watermark_seconds)
        violations = CounterMetricFamily(
            "tidelog_pipeline_rule_violations", "Rows that do not meet a quality rule", labels=[*labels, "rule"]
        )
        for status in self._statuses:
            for rule, count in status.rule_violations.items():
                violations.add_metric([self._pipeline, status.name, rule], count)
        yield violations
        letters = CounterMetricFamily(
            "tidelog_pipeline_dead_letters", "Records sent to a topic of dead letters", labels=[*labels, "topic"]
        )
        for status in self._statuses:
            for topic, count in status.dead_letters.items():
                letters.add_metric([self._pipeline, status.name, topic], count)
        yield letters

    def _gauge(self, name: str, text: str, value_of: Any) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        gauge = GaugeMetricFamily(f"tidelog_pipeline_{name}", text, labels=["pipeline", "query"])
        for status in self._statuses:
            value = value_of(status)
            if value is not None:
                gauge.add_metric([self._pipeline, status.name], value)
        return gauge


def _watermark_seconds(status: QueryStatus) -> float | None:
    return datetime.fromisoformat(status.watermark).timestamp() if status.watermark else None


class MetricsServer:
    """Serves the metrics over HTTP; `port` is the real one when 0 was asked for."""

    def __init__(self, listen: str, pipeline: str, statuses: Sequence[QueryStatus]) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise MissingRequirement("prometheus_client is not installed: pip install 'tidelog[spark]'") from None

        host, _, port = listen.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise PipelineError(f"--metrics-listen needs HOST:PORT or PORT, got {listen!r}")
        registry = CollectorRegistry()
        registry.register(PipelineCollector(pipeline, statuses))
        try:
            self._server, self._thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1", registry)
        except OSError as error:
            raise PipelineError(f"metrics cannot be served on {listen}: {error.strerror}") from None
        self.port: int = self._server.server_port

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

"""The metrics of a run, as Prometheus reads them."""

from __future__ import annotations

import urllib.request

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.metrics import MetricsServer
from tidelog.pipelines.run.progress import QueryStatus


def test_metrics_are_served() -> None:
    status = QueryStatus(name="q", target="topic t", state="running", rows_in=7, watermark="2026-11-16T10:00:00.000Z")
    status.rule_violations["positive"] = 3
    status.dead_letters["t.dead-letters"] = 4
    server = MetricsServer("0", "p", [status])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(PipelineError, match=f"metrics cannot be served on 127.0.0.1:{server.port}"):
            MetricsServer(f"127.0.0.1:{server.port}", "p", [status])
    finally:
        server.stop()
    labels = 'pipeline="p",query="q"'
    for line in (
        f"tidelog_pipeline_rows_in_total{{{labels}}} 7.0",
        f"tidelog_pipeline_up{{{labels}}} 1.0",
        f"tidelog_pipeline_watermark_timestamp_seconds{{{labels}}} 1.7948232e+09",
        f'tidelog_pipeline_rule_violations_total{{{labels},rule="positive"}} 3.0',
        f'tidelog_pipeline_dead_letters_total{{{labels},topic="t.dead-letters"}} 4.0',
    ):
        assert line in lines
    assert not any(line.startswith(f"tidelog_pipeline_lag_offsets{{{labels}") for line in lines), "not measured yet"


@pytest.mark.parametrize("listen", ["", "localhost", "1:2:x", "127.0.0.1:70000"])
def test_addresses_that_are_none(listen: str) -> None:
    with pytest.raises(PipelineError, match="--metrics-listen needs HOST:PORT or PORT"):
        MetricsServer(listen, "p", [])

"""One sink sends the dead letters of a relation, and no bad record falls between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tidelog.pipelines.delivery.checkpoint import Positions
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.senders import choose_senders
from tidelog.pipelines.spec.read import read_pipeline

HEAD = """\
sources:
  orders: {topic: orders, schema: id BIGINT}
  customers: {files: ./customers, format: text, streaming: false}
sinks:
"""
LAKE, OUT = "  lake: {from: orders, table: ./lake}\n", "  out: {from: orders, console: true}\n"
BOTH = "  named: {from: customers, console: true}\n"


def choose(
    tmp_path: Path, sinks: str, kept: Mapping[str, str], positions: Mapping[str, Positions] | None = None
) -> tuple[dict[str, str], list[str]]:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + sinks + BOTH)
    return choose_senders(read_pipeline(path), kept, lambda sink: (positions or {})[sink])


def test_the_first_sink_sends_and_goes_on_sending(tmp_path: Path) -> None:
    assert choose(tmp_path, LAKE + OUT, {}) == ({"orders": "lake", "customers": "named"}, [])
    assert choose(tmp_path, OUT + LAKE, {"orders": "lake"})[0]["orders"] == "lake"


def test_a_sink_takes_over_unless_it_is_ahead(tmp_path: Path) -> None:
    kept = {"orders": "lake", "customers": "gone"}
    behind: dict[str, Positions] = {"lake": {"orders": {0: 5, 1: 7}}, "out": {"orders": {0: 5, 1: 6}}, "gone": {}}
    senders, notes = choose(tmp_path, OUT, kept, {**behind, "named": {}})
    assert senders == {"orders": "out", "customers": "named"}
    assert notes == ["sink out sends the dead letters of orders from now on: lake does not read it any more"]
    ahead: dict[str, Positions] = {**behind, "out": {"orders": {0: 5, 1: 8}}}
    with pytest.raises(
        PipelineError, match=r"sink lake, which sent the dead letters of orders, is gone .* topic orders"
    ):
        choose(tmp_path, OUT, kept, ahead)
    with pytest.raises(PipelineError, match="bad records in between would go nowhere"):
        choose(tmp_path, OUT, kept, {**ahead, "lake": {}})

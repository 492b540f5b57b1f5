"""Which changes of a pipeline its checkpoint can follow, and what is said about the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.pipelines.spec.document import SpecError
from tidelog.pipelines.spec.fingerprint import check_checkpoint, fingerprint
from tidelog.pipelines.spec.read import read_pipeline

FILE = """\
sources:
  orders:
    topic: orders
    schema: amount DOUBLE, at TIMESTAMP
    watermark: {column: at, delay: 1 minute}
steps:
  good:
    sql: SELECT * FROM orders WHERE amount > 0
  revenue:
    sql: |
      SELECT window.start AS minute, sum(amount) AS total
      FROM good GROUP BY window(at, '1 minute')
  passed:
    from: good
    python: mine:passed
sinks:
  out: {from: revenue, topic: revenue}
  lake: {from: passed, table: ./lake}
"""


def after(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    """The notes about a pipeline that goes on from the checkpoint of FILE after some changes to the file."""
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    kept = json.loads(json.dumps(fingerprint(read_pipeline(path))))
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return check_checkpoint(read_pipeline(path), kept)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name", "name"),
        ("amount > 0", "amount > 1"),
        ("delay: 1 minute", "delay: 2 minutes"),
        ("sinks:\n", "trigger: 10s\nsinks:\n"),
        ("SELECT window.start AS minute, sum(amount)", "SELECT  Window.start AS minute, -- why\n      sum(amount)"),
        ("    topic: orders\n", "    topic: orders\n    records-per-batch: 5\n"),
        ("    topic: orders\n", "    topic: [returns, orders]\n"),
    ],
)
def test_harmless_changes(tmp_path: Path, old: str, new: str) -> None:
    assert after(tmp_path, *([(old, new)] if old != new else [])) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("sum(amount)", "max(amount)", 9, "step revenue keeps state, and what it computes was changed (it was: select"),
        ("topic: revenue", "topic: money", 17, "until now its rows went to topic revenue, now topic money"),
        ("table: ./lake", "table: ./pond", 18, "until now its rows went to parquet"),
        ("    topic: orders", "    topic: orders2", 2, "source orders was topic orders and is topic orders2 now"),
        ("mine:passed", "mine:other", 13, "step passed keeps state, and what it computes"),
        ("topic: revenue}", "topic: revenue, mode: update}", 17, "rows were written in mode append, now update"),
        ("{column: at,", "{column: amount,", 2, "the watermark of orders was on at and is on amount now"),
    ],
)
def test_changes_a_checkpoint_cannot_follow(tmp_path: Path, old: str, new: str, line: int, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        after(tmp_path, (old, new))
    problem = caught.value.problems[0]
    assert problem.line == line
    assert reason in problem.text
    assert problem.text.endswith(
        "take the change back, or name a new `checkpoint:` (it starts from the sources' `start:` again)"
    )


def test_sources_in_another_order_have_each_others_positions(tmp_path: Path) -> None:
    """Spark keeps positions by the place of a source in the plan, not by its name."""
    text = """\
sources:
  a: {topic: a, value: bytes}
  b: {topic: b, value: bytes}
steps:
  both: {sql: SELECT * FROM a UNION ALL SELECT * FROM b}
sinks:
  out: {from: both, table: ./out}
"""
    path = tmp_path / "p.yaml"
    path.write_text(text)
    kept = json.loads(json.dumps(fingerprint(read_pipeline(path))))
    path.write_text(text.replace("FROM a UNION ALL SELECT * FROM b", "FROM b UNION ALL SELECT * FROM a"))
    with pytest.raises(SpecError, match="its sources were read in the order a, b, now b, a"):
        check_checkpoint(read_pipeline(path), kept)
    path.write_text(text.replace("FROM b}", "FROM b WHERE offset > 5}"))
    assert check_checkpoint(read_pipeline(path), kept) == []


def test_sinks_may_come_and_go(tmp_path: Path) -> None:
    notes = after(tmp_path, ("  lake:", "  pond:"))
    assert notes == [
        "sink pond is new: it starts where its sources start",
        "sink lake is gone: its checkpoint stays and is not used",
    ]


def test_a_format_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    with pytest.raises(SpecError, match="has version 99 of the format"):
        check_checkpoint(read_pipeline(path), {"version": 99})

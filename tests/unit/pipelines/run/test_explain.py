"""One line for what Spark, Kafka's client and the system throw, and whether another attempt can help."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tidelog.pipelines.errors import PipelineError, Unreachable
from tidelog.pipelines.formats.registry import subject_schemas
from tidelog.pipelines.run.explain import (
    RULE_MARK,
    explain_frame_error,
    explain_query_failure,
)
from tidelog.pipelines.spark.spark_errors import first_line
from tidelog.pipelines.spec.model import Pipeline
from tidelog.pipelines.spec.read import read_pipeline
from tidelog.pipelines.topics.broker import is_reachable

NOBODY = "127.0.0.1:1"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(
        "sources:\n"
        "  a: {topic: t, value: bytes, rules: [{name: small, expect: offset < 5}]}\n"
        "sinks:\n"
        "  s: {from: a, topic: u}\n"
    )
    return read_pipeline(path)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("java.io.IOException: No space left on device\n\tat x", "other", "line 4: sink s: a disk is full: "),
        (f"[USER_RAISED_EXCEPTION] {RULE_MARK}a|small|{{\"offset\":7}} SQLSTATE: P0001", "fatal",
         "line 2: rule small (offset < 5) is not met by {\"offset\":7}; correct the data, or let the rule drop"),
        ("[STREAM_FAILED] Query terminated: Timed out waiting for a node assignment. Call: describeTopics",
         "unreachable", f"line 4: sink s: no broker answers at {NOBODY}; nothing was lost"),
        ("x\norg.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this "
         "topic-partition.", "fatal", "line 4: sink s: This server does not host this topic-partition: records were"),
        ("[STREAM_FAILED] oh\nCaused by: java.lang.RuntimeException: outer\nCaused by: java.lang.Error: the cause",
         "unreachable", f"line 4: sink s: no broker answers at {NOBODY} (the cause); nothing was lost"),
        ("java.util.concurrent.Cause: Cannot fetch record for offset 7 in 120000 milliseconds",
         "unreachable", f"line 4: sink s: no broker answers at {NOBODY}; nothing was lost"),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match. SQLSTATE: 42K06", "fatal",
         "line 4: sink s: Provided key schema does not match; the checkpoint cannot follow"),
        ("bad record in topic t, partition 1, offset 12: value: not JSON", "fatal",
         "line 4: sink s: bad record in topic t, partition 1, offset 12: value: not JSON"),
    ],
)  # fmt: skip
def test_failures_of_queries(pipeline: Pipeline, text: str, kind: str, expected: str) -> None:
    failure = explain_query_failure(pipeline, pipeline.sinks["s"], RuntimeError(text), NOBODY)
    assert failure.kind == kind
    assert failure.text.startswith(f"{pipeline.path} {expected}")
    assert "\n" not in failure.text


ZERO = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 in stage 1.0 failed
org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor \
being 0 and return NULL instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. \
SQLSTATE: 22012
== SQL (line {line}, position 3) ==
{shown}
  ^^^^^^
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.divideByZeroError(QueryExecutionErrors.scala:204)
"""


@pytest.mark.parametrize(
    ("line", "shown", "expected"),
    [
        (2, "  offset / 0 AS x", "line 7: step b: "),
        (2, "...set / 0 AS...", "line 7: step b: "),
        (1, "1 / offset > 0", "line 2: rule small: "),
        (1, "nobody wrote this", "line 9: sink s: "),
    ],
)
def test_a_row_that_a_statement_fails_for(tmp_path: Path, line: int, shown: str, expected: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "sources:\n"
        "  a: {topic: t, value: bytes, rules: [{name: small, expect: 1 / offset > 0}]}\n"
        "steps:\n"
        "  b:\n    sql: |\n      SELECT\n        offset / 0 AS x FROM a\n"
        "sinks:\n"
        "  s: {from: b, topic: u}\n"
    )
    pipeline = read_pipeline(path)
    error = RuntimeError(ZERO.format(line=line, shown=shown))
    failure = explain_query_failure(pipeline, pipeline.sinks["s"], error, NOBODY)
    assert failure.kind == "fatal"
    reason = "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead"
    assert failure.text == f"{path} {expected}{reason}; a row that has been read is like that"


def test_a_cause_that_nobody_knows_counts_while_the_broker_is_there(pipeline: Pipeline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        failure = explain_query_failure(
            pipeline, pipeline.sinks["s"], RuntimeError("Caused by: x.Error: oh"), bootstrap
        )
    assert (failure.kind, failure.text) == ("other", f"{pipeline.path} line 4: sink s: oh")


def test_what_we_raise_ourselves_is_final(pipeline: Pipeline) -> None:
    failure = explain_query_failure(
        pipeline, pipeline.sinks["s"], PipelineError("topic u has other partitions"), NOBODY
    )
    assert (failure.kind, failure.text.partition(": sink s: ")[2]) == ("fatal", "topic u has other partitions")


def test_who_is_away_is_waited_for(pipeline: Pipeline) -> None:
    """Also when it shows while the frames of a query that starts again are built."""
    sink = pipeline.sinks["s"]
    registry = Unreachable("the schema registry at http://r cannot be read", "Connection reset")
    for error in (registry, explain_frame_error(pipeline, pipeline.sources["a"], registry)):
        if error is not registry:
            error.__cause__ = registry
        failure = explain_query_failure(pipeline, sink, error, NOBODY)
        assert failure.kind == "unreachable"
        assert failure.text.endswith("sink s: the schema registry at http://r cannot be read; nothing was lost, "
                                     "reading goes on when it is back")  # fmt: skip
    with pytest.raises(Unreachable) as caught:
        subject_schemas(f"http://{NOBODY}", "t-value")
    assert explain_query_failure(pipeline, sink, caught.value, NOBODY).kind == "unreachable"


def test_what_we_raise_while_a_batch_is_written_is_final_too(pipeline: Pipeline) -> None:
    """It comes back as a text in an error of Spark's."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):\n"
        '  File "topic_sink.py", line 96, in _source_lanes\n    raise PipelineError(\n'
        "tidelog.pipelines.errors.PipelineError: batch 3 was planned otherwise\n\n SQLSTATE: XXKST"
    )
    failure = explain_query_failure(pipeline, pipeline.sinks["s"], RuntimeError(text), NOBODY)
    assert (failure.kind, failure.text.partition(": sink s: ")[2]) == ("fatal", "batch 3 was planned otherwise")


def test_first_line_leaves_decoration_out() -> None:
    assert first_line("\n  java.lang.IllegalStateException: it broke. SQLSTATE: 12345\n at x") == "it broke"
    assert first_line("") == "no details"
    assert len(first_line("x" * 10_000)) == 500


def test_whether_a_broker_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_reachable(f"{NOBODY},127.0.0.1:{server.getsockname()[1]}")
    assert not is_reachable(NOBODY)
    assert not is_reachable("nonsense")

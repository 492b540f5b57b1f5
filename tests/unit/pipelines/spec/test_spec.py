"""Pipeline files: what is read from a good one, and what is said about bad ones, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.delivery.triggers import Trigger
from tidelog.pipelines.spec.document import SpecError
from tidelog.pipelines.spec.model import (
    ConsoleSink,
    DeduplicateStep,
    FilesSink,
    FilesSource,
    Pipeline,
    PythonStep,
    Restart,
    SqlStep,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
)
from tidelog.pipelines.spec.read import read_pipeline

GOOD = """\
name: shop
bootstrap: 127.0.0.1:19092
checkpoint: state/shop
trigger: 5s
dead-letters: orders.dead
client:
  security.protocol: PLAINTEXT
spark:
  master: local[2]
  spark.sql.shuffle.partitions: 4
restart: {attempts: 3, delay: 2s, delay-max: 5s}

sources:
  orders:
    topic: orders
    value: json
    schema: id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP
    watermark: {column: at, delay: 10 minutes}
    records-per-batch: 10_000
    rules:
      - {name: positive, expect: amount > 0, otherwise: drop}
      - expect: customer IS NOT NULL
        otherwise: warn
  customers:
    table: tables/customers
    format: delta
  landing:
    files: landing/*.json
    schema: id BIGINT

steps:
  once:
    from: orders
    deduplicate: [id]
  named:
    sql: |
      SELECT o.*, c.name
      FROM once o
      JOIN customers c ON o.customer = c.id
  scored:
    python: scoring.model:score
    from: [named, landing]

sinks:
  out:
    from: scored
    topic: scored
    key: customer
  lake:
    from: named
    table: tables/orders
    format: delta
    write: upsert
    key: [id]
    mode: update
    trigger: available-now
  raw:
    from: orders
    files: raw
    format: json
    partition-by: customer
  eyes:
    from: named
    console: true
    rows: 5
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str, **environment: str) -> Pipeline:
    return read_pipeline(write(tmp_path, text), environment)


def problems(tmp_path: Path, text: str) -> list[str]:
    """What is wrong with a file, without its name."""
    path = write(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        read_pipeline(path, {})
    return [str(problem).removeprefix(f"{path} ") for problem in caught.value.problems]


def change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, f"{old!r} is there {GOOD.count(old)} times"
    return GOOD.replace(old, new)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    pipeline = read(tmp_path, GOOD)
    assert (pipeline.name, pipeline.bootstrap) == ("shop", "127.0.0.1:19092")
    assert pipeline.checkpoint == str(tmp_path / "state" / "shop")
    assert pipeline.restart == Restart(attempts_max=3, delay_ms=2000, delay_max_ms=5000)
    assert pipeline.spark == {"master": "local[2]", "spark.sql.shuffle.partitions": "4"}
    assert pipeline.client == {"security.protocol": "PLAINTEXT"}

    orders = pipeline.sources["orders"]
    assert isinstance(orders, TopicSource)
    assert (orders.topics, orders.value, orders.start, orders.records_per_batch_max) == (
        ("orders",),
        "json",
        "earliest",
        10_000,
    )
    assert orders.on_invalid == "dead-letters"
    assert orders.watermark is not None
    assert (orders.watermark.column, orders.watermark.delay_ms, orders.watermark.line) == ("at", 600_000, 18)
    assert [(rule.name, rule.otherwise, rule.line) for rule in orders.rules] == [
        ("positive", "drop", 21),
        ("orders_2", "warn", 22),
    ]
    assert isinstance(pipeline.sources["customers"], TableSource)
    assert pipeline.sources["customers"].location == str(tmp_path / "tables" / "customers")
    assert isinstance(pipeline.sources["landing"], FilesSource)

    named = pipeline.steps["named"]
    assert isinstance(named, SqlStep)
    assert (named.inputs, named.sql_line) == (("once", "customers"), 37)
    assert isinstance(pipeline.steps["once"], DeduplicateStep)
    assert isinstance(pipeline.steps["scored"], PythonStep)
    assert pipeline.steps["scored"].inputs == ("named", "landing")

    out, lake, raw, eyes = pipeline.sinks.values()
    assert isinstance(out, TopicSink)
    assert (out.delivery, out.trigger) == ("exactly-once", Trigger(kind="interval", interval_ms=5000))
    assert isinstance(lake, TableSink)
    assert (lake.write, lake.key, lake.mode, lake.trigger.kind) == ("upsert", ("id",), "update", "available-now")
    assert isinstance(raw, FilesSink)
    assert raw.partition_by == ("customer",)
    assert isinstance(eyes, ConsoleSink)
    assert eyes.rows_max == 5


def test_defaults(tmp_path: Path) -> None:
    text = "sources: {a: {topic: t, value: bytes}}\nsinks: {s: {from: a, console: true}}\n"
    pipeline = read(tmp_path, text)
    assert pipeline.name == "shop"
    assert pipeline.checkpoint == str(tmp_path / ".tidelog" / "checkpoints" / "shop")
    assert pipeline.sinks["s"].trigger == Trigger(kind="available-now")
    assert pipeline.is_streaming("a")


def test_addresses_are_left_as_they_are(tmp_path: Path) -> None:
    pipeline = read(tmp_path, change("checkpoint: state/shop", "checkpoint: s3a://bucket/state/"))
    assert pipeline.checkpoint == "s3a://bucket/state"
    assert pipeline.sources["orders"].name == "orders"


def test_variables_come_from_the_environment(tmp_path: Path) -> None:
    text = change("bootstrap: 127.0.0.1:19092", "bootstrap: ${BROKERS}").replace("state/shop", "${DIR:-state}/shop")
    pipeline = read(tmp_path, text, BROKERS="a:1,b:2")
    assert pipeline.bootstrap == "a:1,b:2"
    assert pipeline.checkpoint == str(tmp_path / "state" / "shop")
    assert problems(tmp_path, text) == [
        "line 2: environment variable BROKERS is not set; set it or write ${BROKERS:-...}"
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "    topic: orders\n",
            "    topik: orders\n",
            [
                "line 15: source orders needs one of `topic:`, `table:`, `files:` (did you mean topic?)",
            ],
        ),
        (
            "    value: json\n",
            "    valeu: json\n",
            [
                "line 16: unknown key valeu in source orders (did you mean value?)",
            ],
        ),
        (
            "    value: json\n",
            "    value: jsn\n",
            [
                "line 16: value of source orders is jsn (did you mean json?); it can be json, text, bytes, csv,",
            ],
        ),
        (
            "trigger: 5s\n",
            "trigger: sometimes\n",
            [
                "line 4: the trigger sometimes is none: use available-now, an interval such as 10s, or continuou",
            ],
        ),
        (
            "delay: 10 minutes",
            "delay: 10 moons",
            [
                "line 18: delay of watermark of source orders: '10 moons' is no duration: use a number with ms,",
            ],
        ),
        (
            "records-per-batch: 10_000",
            "records-per-batch: many",
            [
                "line 19: records-per-batch of source orders must be a whole number of at least 1, not many",
            ],
        ),
        (
            "otherwise: drop",
            "otherwise: burn",
            [
                "line 21: otherwise of rule of source orders is burn; it can be warn, drop, fail",
            ],
        ),
        (
            "    topic: orders\n",
            "    topic: or ders\n",
            [
                "line 15: 'or ders' is no name for a topic: up to 249 letters, digits, `.`, `_` and `-`",
            ],
        ),
        (
            "      FROM once o\n",
            "      FROM onse o\n",
            [
                "line 38: step named reads onse, which is no source and no step (did you mean once?)",
            ],
        ),
        (
            "      FROM once o\n",
            "      FROM Once o\n",
            [
                "line 38: step named reads Once; write it as it is named: once",
            ],
        ),
        (
            "    from: scored\n",
            "    from: xyz\n",
            [
                "line 45: sink out reads xyz, which is no source and no step; there is orders, customers, landi",
            ],
        ),
        (
            "    python: scoring.model:score\n",
            "    python: scoring.model.score\n",
            [
                "line 41: python of step scored must be module:function, not scoring.model.score",
            ],
        ),
        (
            "    write: upsert\n",
            "",
            [
                "line 53: sink lake appends; `key:` and `delete-when:` are for `write: upsert`",
                "line 54: sink lake only takes new rows, not mode update; use `write: upsert` with a `key:`",
            ],
        ),
        (
            "    format: delta\n    write: upsert\n",
            "    write: upsert\n",
            [
                "line 52: sink lake cannot upsert into parquet; use `format: delta` or iceberg",
            ],
        ),
        (
            "    topic: scored\n",
            "    topic: orders\n",
            [
                "line 47: sink out writes topic orders, which it reads; use another topic",
            ],
        ),
        (
            "dead-letters: orders.dead\n",
            "dead-letters: orders\n",
            [
                "line 14: the dead letters of orders go to orders, which sink out reads; use another topic",
            ],
        ),
        (
            "    value: json\n",
            "    start: yesterday\n",
            [
                "line 16: start of source orders: start='yesterday': neither 'earliest', 'latest' nor an ISO 8601 time",
            ],
        ),
        (
            "restart: {attempts: 3,",
            "restart: {attempt: 3,",
            [
                "line 11: unknown key attempt in restart (did you mean attempts?)",
            ],
        ),
        (
            "  master: local[2]\n",
            "  mister: local[2]\n",
            [
                "line 8: spark takes `master`, `packages` and settings that begin with `spark.`, not mister",
            ],
        ),
        (
            "trigger: 5s\n",
            "trigger: 5s\ntrigger: 6s\n",
            [
                "line 5: trigger is already given on line 4; leave one of them out",
            ],
        ),
        (
            "trigger: 5s\n",
            "triger: 5s\n",
            [
                "line 4: unknown key triger in pipeline (did you mean trigger?)",
            ],
        ),
        (
            "    sql: |\n",
            "    sql: |\n      DELETE FROM x;\n",
            [
                "line 36: step named must be a SELECT (or WITH ... SELECT), not DELETE",
                "line 37: step named reads x, which is no source and no step; there is orders, customers, landin",
            ],
        ),
        (
            "    watermark: {column: at, delay: 10 minutes}\n",
            "",
            [
                "line 31: step once would remember every key for ever; give orders a `watermark:`",
            ],
        ),
        (
            "    files: landing/*.json\n    schema: id BIGINT\n",
            "    files: landing/*.json\n",
            [
                "line 28: source landing needs `schema:` (id BIGINT, name STRING, ...) to be read as a stream",
            ],
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    found = problems(tmp_path, change(old, new))
    assert len(found) == len(expected), found
    for problem, beginning in zip(found, expected, strict=True):
        assert problem.startswith(beginning)


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    text = change("    value: json\n", "    valeu: json\n").replace("trigger: 5s", "trigger: 5 parsecs")
    found = problems(tmp_path, text)
    assert [problem.partition(":")[0] for problem in found] == ["line 4", "line 16"]
    with pytest.raises(SpecError, match=r"line 4: .* \(and 1 more: `tidelog pipeline validate` lists all\)"):
        read(tmp_path, text)


def test_circles_are_found(tmp_path: Path) -> None:
    text = """\
sources: {a: {topic: t, value: bytes}}
steps:
  one: {sql: "SELECT * FROM two JOIN a"}
  two: {sql: "SELECT * FROM three"}
  three: {sql: "SELECT * FROM one"}
sinks: {s: {from: one, console: true}}
"""
    assert problems(tmp_path, text) == [
        "line 3: the steps go round in a circle: one -> two -> three -> one; one must read something else"
    ]


def test_names_are_unique_and_used(tmp_path: Path) -> None:
    text = """\
sources:
  a: {topic: t, value: bytes}
  b: {topic: t, value: bytes}
steps:
  A: {sql: "SELECT * FROM a"}
sinks: {s: {from: A, console: true}}
"""
    assert problems(tmp_path, text) == [
        "line 3: source b reaches no sink; use it or leave it out",
        "line 5: A is already the name of a source or step (line 2); rename one",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: a pipeline is a mapping with `sources:` and `sinks:`"),
        ("- a\n- b\n", "line 1: a pipeline is a mapping with `sources:` and `sinks:`"),
        ("name: x\n", "line 1: the pipeline needs `sources:` (where rows come from)"),
        ("sources: {a: [\n", "line 2: not YAML: "),
        ("sources: {a: 7}\nsinks: {}\n", "line 1: source a must be a mapping"),
    ],
)
def test_files_that_are_no_pipelines(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text)[0].startswith(expected)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nothing\.yaml: cannot be read: No such file or directory"):
        read_pipeline(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="it is not UTF-8 text"):
        read_pipeline(tmp_path / "binary.yaml")
    (tmp_path / "deep.yaml").write_text("[" * 3_000)
    with pytest.raises(SpecError, match="nested too deeply"):
        read_pipeline(tmp_path / "deep.yaml")
    (tmp_path / "large.yaml").write_text("#" * 2_000_000)
    with pytest.raises(SpecError, match="larger than"):
        read_pipeline(tmp_path / "large.yaml")


def test_continuous_needs_a_sink_without_batches(tmp_path: Path) -> None:
    text = "sources: {a: {topic: t, value: bytes}}\nsinks:\n  s: {from: a, topic: u, trigger: continuous}\n"
    assert problems(tmp_path, text)[0].startswith("line 3: sink s cannot run continuously")
    pipeline = read(tmp_path, text.replace("topic: u,", "topic: u, delivery: at-least-once,"))
    assert pipeline.sinks["s"].trigger == Trigger(kind="continuous", interval_ms=1000)


def test_rows_are_only_dropped_into_a_topic(tmp_path: Path) -> None:
    text = """\
sources: {a: {topic: t, value: bytes, rules: [{expect: value IS NOT NULL, otherwise: drop}]}}
steps: {b: {sql: SELECT * FROM a, rules: [{expect: value <> 1, otherwise: drop}]}}
sinks: {s: {from: b, console: true}}
"""
    assert problems(tmp_path, text) == ["line 2: rule b_1 drops rows, so step b needs `dead-letters:` (a topic)"]
    pipeline = read(tmp_path, f"dead-letters: bin\n{text}")
    assert [pipeline.relation(name).dead_letters for name in "ab"] == ["bin", "bin"]
    plain = text.replace(", rules: [{expect: value <> 1, otherwise: drop}]", "")
    assert read(tmp_path, plain).relation("a").dead_letters == "t.dead-letters"

"""SQL, types and modules inside a pipeline file, judged without Spark: mistakes with their lines, no false alarms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.spec import sql_syntax
from tidelog.pipelines.spec.judge import find_problems
from tidelog.pipelines.spec.modules import find_missing
from tidelog.pipelines.spec.read import read_pipeline
from tidelog.pipelines.spec.sql_syntax import find_mistake
from tidelog.pipelines.spec.sql_types import find_unknown_cast, find_unknown_type

FILE = """\
sources:
  orders:
    topic: orders
    schema: |
      id BIGINTT,
      at TIMESTAMP
    key: avro
    key-schema: |
      {"type": "long"
    rules:
      - {name: known, expect: value.id IN (1, 2, otherwise: warn}
steps:
  good:
    sql: |
      -- the ones that count
      SELECT value.id
      FROM orders
      WHER value.id > 1
  text:
    sql: SELECT CAST(id AS STRNG) AS id FROM good
  none:
    from: text
    python: no_such_module:f
  wrong:
    from: none
    python: beside:missing
sinks:
  table: {from: wrong, table: ./t, format: delta, write: upsert, key: id, delete-when: gone =}
"""


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def present(frame):\n    return frame\n")
    path = tmp_path / "p.yaml"
    path.write_text(FILE.replace("(1, 2,", '"value.id IN (1, 2",').replace('expect: value.id IN "', 'expect: "'))
    assert [(problem.line, problem.text) for problem in find_problems(read_pipeline(path))] == [
        (5, "source orders: unknown type BIGINTT (did you mean BIGINT?)"),
        (9, "source orders: the Avro schema is not JSON: Expecting ',' delimiter"),
        (11, "rule known of orders: SQL syntax error: a ( is not closed"),
        (18, "step good: SQL syntax error at WHER (did you mean WHERE?)"),
        (20, "step text: unknown type STRNG (did you mean STRING?)"),
        (
            23,
            "step none: No module named 'no_such_module'; it is looked for beside the file, then where Python finds "
            "modules",
        ),
        (26, "step wrong: module beside has no function missing"),
        (28, "delete-when of sink table: SQL syntax error at end of input"),
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t WHER a > 1", (0, "SQL syntax error at WHER (did you mean WHERE?)")),
        ("SELECT a\nFORM t\nWHER a > 1", (1, "SQL syntax error at FORM (did you mean FROM?)")),
        ("SELECT a\nFROM t\nGRUOP BY window(at, '1 day')", (2, "SQL syntax error at GRUOP (did you mean GROUP?)")),
        ("SELECT a FROM t WHERE", (0, "SQL syntax error at end of input")),
        ("SELECT a,\nb FROM t WHERE a >", (1, "SQL syntax error at end of input")),
        ("SELECT sum(a FROM t", (0, "SQL syntax error: a ( is not closed")),
        ("SELECT a) FROM t", (0, "SQL syntax error at ')': nothing that it closes is open")),
        ("SELECT a[0) FROM t", (0, "SQL syntax error at ')': nothing that it closes is open")),
        ("SELECT 'a FROM t", (0, "SQL syntax error: a ' is not closed")),
        ("SELECT a b c FROM t", (0, "SQL syntax error at c")),
        ("SELECT a FROM t GROUP a", (0, "SQL syntax error at a")),
    ],
)
def test_mistakes_in_statements(sql: str, expected: tuple[int, str]) -> None:
    assert find_mistake(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT count(*) FROM t GROUP BY window(at, '1 minute')",
        "SELECT value:a.b::int FROM t",
        "SELECT ')' AS `(`, \"[\" FROM t -- (",
        "SELECT a /* ( */ FROM t",
        "SELECT /* one /* two ' */ ( */ a FROM t",
        "FROM t |> WHERE a > 1 |> DROP a",
        "SELECT " + "(" * 200 + "1" + ")" * 200,
        "SELECT '" + "a" * 200_000,
    ],
)
def test_what_is_not_certain_passes(sql: str) -> None:
    assert find_mistake(sql) is None


@pytest.mark.parametrize(
    ("schema", "line", "name"),
    [
        ("id BIGINTT", 0, "BIGINTT"),
        ("id BIGINT,\nitems ARRAY<STRUCT<a: INT, b: MAP<STRING, DOUBL>>>", 1, "DOUBL"),
        ("struct<a:int,b:strng>", 0, "strng"),
        ("price DECIMAL(10, 2) NOT NULL COMMENT 'a, b', at TIMESTMP", 0, "TIMESTMP"),
    ],
)
def test_unknown_types(schema: str, line: int, name: str) -> None:
    mistake = find_unknown_type(schema)
    assert mistake is not None
    assert mistake.line == line
    assert mistake.text.startswith(f"unknown type {name} (did you mean ")


@pytest.mark.parametrize("schema", ["", "a", "a INT b INT c", "{}", "a ARRAY", "a ARRAY<INT", "1 INT", "a STRUCT<>"])
def test_a_schema_that_cannot_be_followed_is_left_to_spark(schema: str) -> None:
    assert find_unknown_type(schema) is None


def test_casts() -> None:
    assert find_unknown_cast("SELECT cast(f(a AS b) AS INT), 'CAST(a AS X)', CAST(a AS ARRAY<INT>) FROM t") is None
    assert find_unknown_cast("SELECT a,\ntry_cast(cast(a AS INT) AS FLAOT) FROM t") == (
        1,
        "unknown type FLAOT (did you mean FLOAT?)",
    )


def test_modules_are_found_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "own.py").write_text(f"open({str(marker)!r}, 'w')\nif True:\n    def step(frame): ...\nother = step\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (tmp_path / "package" / "inner.py").write_text("from os.path import *\n")
    (tmp_path / "broken.py").write_text("def step(:\n")
    for function in ("own:step", "own:other", "package.inner:anything", "json:dumps", "os.path:join", "sys:exit"):
        assert find_missing(function, tmp_path) == "", function
    assert find_missing("own:nothing", tmp_path) == "module own has no function nothing"
    assert find_missing("package.missing:f", tmp_path).startswith("No module named 'package.missing'; ")
    assert find_missing("own.inner:f", tmp_path).startswith("No module named 'own.inner'; ")
    assert find_missing("broken:step", tmp_path) == f"{tmp_path}/broken.py line 1: invalid syntax"
    assert not marker.exists(), "a module was run"


def test_without_the_parser_types_are_judged_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tidelog.pipelines.spec.judge.can_parse", lambda: False)
    monkeypatch.setattr(sql_syntax, "_refuse", None)
    path = tmp_path / "p.yaml"
    path.write_text(
        "sources: {a: {topic: t, schema: i INTT}}\nsteps: {b: {sql: SELECT FROM WHER a}, c: {sql: SELECT 1 FROM a}}\n"
        "sinks: {s: {from: c, console: true}}\n".replace("b: {sql: SELECT FROM WHER a}, ", "")
    )
    assert [problem.line for problem in find_problems(read_pipeline(path))] == [1]

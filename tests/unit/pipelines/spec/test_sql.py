"""What a pipeline file's SQL reads and whether it keeps state, found without Spark."""

from __future__ import annotations

import pytest

from tidelog.pipelines.spec.sql import find_references, is_stateful, normalize


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM a", ["a"]),
        ("SELECT * FROM a, b AS c, `d e`", ["a", "b", "d e"]),
        ("SELECT f(x, y) FROM a x JOIN b ON x.i = b.i, c WHERE x IN (1, 2)", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM a) AS s LEFT JOIN (SELECT 1 FROM b) t USING (k, l)", ["a", "b"]),
        ("WITH x AS (SELECT * FROM a), y AS (SELECT * FROM x) SELECT * FROM y JOIN X", ["a"]),
        ("SELECT extract(DAY FROM at), trim(BOTH ' ' FROM n), a IS DISTINCT FROM b FROM t", ["t"]),
        ("SELECT * FROM lake.orders JOIN delta.`/path` ON true JOIN range(10) r JOIN a", ["a"]),
        ("SELECT 'FROM nothing', \"FROM b\" -- FROM c\n/* FROM d */ FROM a", ["a"]),
        ("SELECT k, v FROM a LATERAL VIEW explode(m) t AS k, v", ["a"]),
        ("SELECT (SELECT max(x) FROM b) FROM a WHERE EXISTS (SELECT 1 FROM c)", ["b", "a", "c"]),
        ("FROM a |> WHERE x > 1", ["a"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", ["a", "b"]),
        ("SELECT", []),
        ("SELECT * FROM", []),
        ("SELECT 'open", []),
        (")))((( FROM a", ["a"]),
    ],
)
def test_references(sql: str, names: list[str]) -> None:
    assert [reference.name for reference in find_references(sql)] == names


def test_references_have_lines() -> None:
    found = find_references("SELECT *\n/* one\ntwo */\nFROM a\nJOIN\n  b")
    assert [(reference.name, reference.line) for reference in found] == [("a", 3), ("b", 5)]


@pytest.mark.parametrize(
    ("sql", "streams", "stateful"),
    [
        ("SELECT * FROM a", 1, False),
        ("SELECT a.x IS DISTINCT FROM 1 FROM a", 1, False),
        ("SELECT DISTINCT x FROM a", 1, True),
        ("SELECT x FROM a GROUP BY x", 1, True),
        ("SELECT count(*) FROM a", 1, True),
        ("SELECT first_name, 'count(' FROM a", 1, False),
        ("SELECT * FROM a JOIN b", 1, False),
        ("SELECT * FROM a JOIN b", 2, True),
        ("SELECT x, y FROM a, b WHERE a.i = b.i", 2, True),
        ("SELECT x, y FROM a, b WHERE a.i = b.i", 1, False),
        ("SELECT x, y FROM a UNION ALL SELECT x, y FROM b", 2, False),
        ("SELECT x FROM a UNION SELECT x FROM b", 2, True),
        ("SELECT x FROM a WHERE x IN (SELECT y FROM b)", 2, True),
        ("SELECT x FROM a WHERE x IN (1, 2)", 1, False),
        ("WITH c AS (SELECT x FROM b) SELECT x FROM a UNION ALL SELECT x FROM c", 2, True),
    ],
)
def test_state(sql: str, streams: int, stateful: bool) -> None:
    assert is_stateful(sql, streams=streams) is stateful


def test_what_changes_nothing_is_not_compared() -> None:
    assert normalize("SELECT  x -- why\nFROM A;") == normalize("select x from a")
    assert normalize("SELECT 'X' FROM a") != normalize("SELECT 'x' FROM a")

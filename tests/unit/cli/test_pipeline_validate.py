"""`tidelog pipeline validate` says everything that is wrong with a file in one look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.cli.main import main

pytest.importorskip("sqlglot")

WRONG = """\
sources:
  orders:
    topic: orders
    schema: id BIGINTT
steps:
  revenue:
    sql: SELECT value.id FROM orders WHER value.id > 0
sinks:
  out: {from: revenue, table: ./out, formt: delta}
"""


def test_a_wrong_key_does_not_hide_a_wrong_statement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    assert main(["pipeline", "validate", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"tidelog: {file} ") for line in lines] == [
        "line 4: source orders: unknown type BIGINTT (did you mean BIGINT?)",
        "line 7: step revenue: SQL syntax error at WHER (did you mean WHERE?)",
        "line 9: unknown key formt in sink out (did you mean format?)",
    ]

"""What is refused without Spark against Spark's own parser: a statement that Spark takes must pass."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.spec.model import SqlStep
from tidelog.pipelines.spec.read import read_pipeline
from tidelog.pipelines.spec.sql_syntax import find_mistake
from tidelog.pipelines.spec.sql_types import find_unknown_cast, find_unknown_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = Path(__file__).with_name("statements.sql").read_text().splitlines()[1:]
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
SCHEMAS = [
    "id BIGINT, customer STRING, amount DOUBLE NOT NULL COMMENT 'in euros', at TIMESTAMP",
    "`my id` INT, tags ARRAY<STRING>, price DECIMAL(10, 2), counts MAP<STRING, ARRAY<BIGINT>>",
    "id: BIGINT, nested: STRUCT<a: INT, b: STRUCT<c: TIMESTAMP_NTZ NOT NULL, d: DATE>>",
    "a BYTE, b SHORT, c LONG, d REAL, e BINARY, f VOID, g VARCHAR(3), h CHAR(2), i INTERVAL DAY TO SECOND, j VARIANT",
    "struct<a:int,b:array<struct<c:string>>>",
]
BREAKS = (("WHERE", "WHER"), ("GROUP", "GRUOP"), ("FROM", "FORM"), ("SELECT", "SELCT"), ("JOIN", "JION"), (")", ""))


def takes(spark: SparkSession, sql: str) -> bool:
    from pyspark.errors import ParseException

    session: Any = spark
    try:
        session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except ParseException:
        return False
    return True


def test_no_statement_that_spark_takes_is_refused(spark: SparkSession) -> None:
    steps = [step for path in EXAMPLES for step in read_pipeline(path, {}).steps.values()]
    statements = [*STATEMENTS, *(step.sql for step in steps if isinstance(step, SqlStep))]
    assert len(statements) > 80
    for sql in statements:
        assert takes(spark, sql), sql
        assert (find_mistake(sql), find_unknown_cast(sql)) == (None, None), sql


def test_most_broken_statements_are_found_and_none_that_spark_takes(spark: SparkSession) -> None:
    from tidelog.pipelines.run.frames import _silence_stacks

    _silence_stacks()
    broken = found = 0
    for sql in STATEMENTS:
        for old, new in BREAKS:
            changed = re.sub(re.escape(old), new, sql, count=1)
            if changed != sql:
                refused = not takes(spark, changed)
                told = find_mistake(changed) is not None
                assert refused or not told, f"Spark takes {changed}"
                broken, found = broken + refused, found + (refused and told)
    assert broken > 100
    assert found / broken > 0.75, f"{found} of {broken}"


def test_no_schema_that_spark_takes_is_refused(spark: SparkSession) -> None:
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    for schema in SCHEMAS:
        StructType.fromDDL(schema)
        assert find_unknown_type(schema) is None, schema
        for word in ("INT", "int", "STRING", "BIGINT", "TIMESTAMP_NTZ"):
            changed = re.sub(rf"\b{word}\b", f"{word}T", schema, count=1)
            if changed != schema:
                assert find_unknown_type(changed) is not None, changed
                try:
                    StructType.fromDDL(changed)
                except ParseException:
                    continue
                raise AssertionError(f"Spark takes {changed}")

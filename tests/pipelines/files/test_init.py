"""What `tidelog pipeline init` writes is run by Spark as it is: the rows are in the table, with the types it found."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.files.bench import Bench


def init(bench: Bench, topic: str, *options: str) -> Path:
    path = bench.directory / f"{topic}.yaml"
    command = [sys.executable, "-m", "tidelog.cli.main", "pipeline", "init", topic, "--to", str(path), *options]
    subprocess.run([*command, "-b", bench.bootstrap], check=True, capture_output=True, timeout=60)
    return path


STRANGE: dict[str, Any] = {
    "my field": "a",
    "a.b": 1,
    "a`b": 2,
    "not": 3,
    "order": True,
    "1st": 4,
    "日本": "z",
    "large": 2**64,
    "larger": 10**40,
    "mixed": {"x": 1},
    "at": "2026-11-16T10:00:12.123456789+02:00",
    "local": "2026-11-16 10:00",
    "items": [{"sku": "s", "counts": [1, 0.5], "nothing": None, "empty": {}}],
    "id": 1,
    "ID": "not this one",
}


def test_json_into_a_table(bench: Bench) -> None:
    topic = bench.topic("strange")
    bench.put(topic, STRANGE, {**STRANGE, "mixed": 7, "id": 2}, {"id": 3}, b"no JSON", {"id": 4})
    path = init(bench, topic)
    # All that is offered in comments is taken as well.
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.replace("# watermark: ", "watermark: ") for line in lines))
    [status] = bench.run(path)
    assert (status.state, status.bad_records) == ("done", 1)
    rows = bench.spark.read.parquet(str(bench.directory / "tables" / topic)).orderBy("id").collect()
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    first = rows[0].asDict(recursive=True)
    assert first["at"].astimezone(UTC) == datetime(2026, 11, 16, 8, 0, 12, 123456, UTC)
    assert {name: value for name, value in first.items() if name not in ("at", "local")} == {
        **{name: STRANGE[name] for name in ("my field", "a.b", "a`b", "not", "order", "1st", "日本", "id")},
        "large": Decimal(2**64),
        "larger": str(10**40),
        "mixed": '{"x":1}',
        "items": [{"sku": "s", "counts": [1.0, 0.5], "nothing": None, "empty": "{}"}],
    }
    assert rows[1]["mixed"] == "7"
    [letter] = bench.records(f"{topic}.dead-letters")
    assert letter.value() == b"no JSON"


@pytest.mark.parametrize(("value", "expected"), [(b"some text", "text"), (b"\xff\x00", "bytes")])
def test_other_values_into_a_topic(bench: Bench, value: bytes, expected: str) -> None:
    topic = bench.topic("plain", partitions=1)
    bench.put(topic, value)
    path = init(bench, topic, "--sink", "topic")
    assert f"value: {expected}" in path.read_text()
    bench.run(path)
    assert [record.value() for record in bench.records(f"{topic}-rows")] == [value]


def test_spark_takes_what_the_inference_says_it_takes(bench: Bench) -> None:
    """Each pair of values shares a field, of the type that was found for the two of them."""
    some: list[Any] = [2**63 - 1, 0, -0.0, 1e300, 5e-324, 10**30, 10**60, "a", "", None, True, [], {}, [1], [{"a": 1}]]
    some += ["2026-11-16T10:00:12Z", "2026-11-16 10:00:12.5", "0001-01-01T00:00:00-17:59", [[0.5]], {"a": {"b": "c"}}]
    pairs = [(one, other) for one in range(len(some)) for other in range(one, len(some))]
    topic = bench.topic("pairs", partitions=1)
    for side in (0, 1):
        bench.put(topic, {f"f{one}_{other}": some[(one, other)[side]] for one, other in pairs})
    [status] = bench.run(init(bench, topic))
    assert (status.state, status.bad_records, status.rows_out) == ("done", 0, 2)

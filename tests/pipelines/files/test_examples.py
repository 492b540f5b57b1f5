"""The pipeline files under examples/, run as they are on small streams."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.files.bench import Bench

from tidelog.testing.broker import Broker

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def filled(own_node: Broker) -> Broker:
    """The topics that the examples read. The last record of each moves the watermark past all others."""
    for topic in ("orders", "payments", "clicks"):
        own_node.create_topic(topic, partitions=2)
    return own_node


@pytest.fixture
def example(bench: Bench, filled: Broker, tmp_path: Path) -> Any:
    shutil.copytree(EXAMPLES, tmp_path / "examples")

    def run(name: str) -> list[Any]:
        statuses = bench.run(tmp_path / "examples" / f"{name}.yaml")
        assert [status.state for status in statuses] == ["done"], bench.lines
        return statuses

    return run


def at(minute: int) -> str:
    return f"2026-11-16T{10 + minute // 60}:{minute % 60:02d}:00Z"


ORDERS = [
    *({"id": number, "customer": f"c{number % 2}", "amount": 10.0 + number, "at": at(number)} for number in range(4)),
    {"id": 1, "customer": "c1", "amount": 11.0, "at": at(1)},
    {"id": 7, "customer": "nobody", "amount": -1.0, "at": at(2)},
    {"id": 99, "customer": "c0", "amount": 1.0, "at": at(200)},
]


@pytest.fixture(scope="module")
def orders(filled: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    bench = Bench(spark, filled, tmp_path_factory.mktemp("orders"))
    bench.put("orders", *ORDERS, b"not JSON")


@pytest.mark.usefixtures("orders")
def test_windows(bench: Bench, example: Any) -> None:
    (status,) = example("windows")
    assert sorted(bench.values("revenue-per-minute"), key=lambda window: window["minute"]) == [
        {"minute": "2026-11-16 10:00", "orders": 1, "revenue": 10.0},
        {"minute": "2026-11-16 10:01", "orders": 2, "revenue": 22.0},
        {"minute": "2026-11-16 10:02", "orders": 1, "revenue": 12.0},
        {"minute": "2026-11-16 10:03", "orders": 1, "revenue": 13.0},
    ]
    # Every example that reads the topic sends its bad records there: each is counted once.
    reasons = sorted(
        {dict(record.headers())["tidelog.dead-letter.reason"] for record in bench.records("orders.dead-letters")}
    )
    assert [reason.decode().partition(":")[0] for reason in reasons] == ["rule positive amount of orders", "value"]
    assert status.rule_violations == {"positive amount": 1, "has an id": 0}
    assert (status.rows_in, status.rows_out) == (8, 4)


@pytest.mark.usefixtures("orders")
def test_stream_stream_join(bench: Bench, example: Any) -> None:
    bench.put(
        "payments",
        {"order_id": 1, "paid": 11.0, "at": at(30)},
        {"order_id": 2, "paid": 1.0, "at": at(99)},
        {"order_id": 99, "paid": 1.0, "at": at(220)},
    )
    example("stream_stream_join")
    settled = sorted((order["id"], order["paid"] or 0.0) for order in bench.values("settled-orders"))
    assert settled == [(0, 0.0), (1, 11.0), (1, 11.0), (2, 0.0), (3, 0.0), (7, 0.0), (99, 1.0)]


@pytest.mark.usefixtures("orders")
def test_stream_table_join(bench: Bench, example: Any, tmp_path: Path) -> None:
    customers = [("c0", "Ada", "SE"), ("c1", "Ben", "NO")]
    table = tmp_path / "examples" / "tables"
    bench.spark.createDataFrame(customers, "id STRING, name STRING, country STRING").write.parquet(
        str(table / "customers")
    )
    example("stream_table_join")
    rows = bench.spark.read.parquet(str(table / "orders")).orderBy("id", "timestamp").collect()
    assert [(row["id"], row["name"], row["country"]) for row in rows] == [
        (0, "Ada", "SE"),
        (1, "Ben", "NO"),
        (1, "Ben", "NO"),
        (2, "Ada", "SE"),
        (3, "Ben", "NO"),
        (7, None, "unknown"),
        (99, "Ada", "SE"),
    ]
    assert (table / "orders" / "country=SE").is_dir()


@pytest.mark.usefixtures("orders")
def test_deduplicate(bench: Bench, example: Any) -> None:
    (status,) = example("deduplicate")
    assert sorted(order["id"] for order in bench.values("unique-orders")) == [0, 1, 2, 3, 7, 99]
    assert (status.rows_in, status.rows_out) == (8, 6)


def test_sessions(bench: Bench, example: Any) -> None:
    bench.put(
        "clicks",
        {"user": "a", "page": "x", "at": at(0)},
        {"user": "a", "page": "y", "at": at(3)},
        {"user": "b", "page": "x", "at": at(1)},
        {"user": "a", "page": "x", "at": at(20)},
        {"user": "z", "page": "x", "at": at(60)},
    )
    example("sessions")
    visits = sorted(bench.values("visits"), key=lambda visit: (visit["user"], visit["started"]))
    assert [(visit["user"], visit["clicks"], visit["seconds"], visit["kind"]) for visit in visits] == [
        ("a", 2, 180, "visit"),
        ("a", 1, 0, "glance"),
        ("b", 1, 0, "glance"),
    ]

"""The second half of `tidelog demo`: a pipeline on Spark over the orders, while more of them come in.

Orders are parsed, enriched from a table and summed per minute into a topic, exactly once, and written to a table; what
cannot be used goes to dead letters. Then the topic is archived and the archive audited against the log. Everything
that comes out is compared with what was put in.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.clients import connect_consumer, connect_producer
from tidelog.cli.demo_orders import CUSTOMERS, SILENCE_SECONDS_MAX, UNTIL_MS, make_orders
from tidelog.cli.output import format_count, format_rate, format_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.pipelines.jobs.audit import Audit
    from tidelog.pipelines.run.progress import QueryStatus

TOPIC = "orders"
REVENUE_TOPIC = "revenue-per-minute"
DEAD_TOPIC = "orders.dead-letters"
LIVE_SECONDS = 6.0
LIVE_MINUTES = 5
BAD_EVERY = 250
"""Among the live orders, one in so many is followed by a record that is no good."""

SECONDS_MAX = 240.0
_SEGMENTS = ("harbour", "regatta", "deep sea")
_BAD = (b'{"order": 1, "customer": "cust', b"not JSON at all", b"\x00\xff\xfe")

PIPELINE = """\
# Written by `tidelog demo`. Start the node again (`{serve}`), then
# `{tidelog} pipeline run {path}` goes on where this left off.
name: demo
bootstrap: {bootstrap}
checkpoint: checkpoint
trigger: 1s

sources:
  orders:
    topic: {topic}
    schema: >
      order BIGINT, customer STRING, country STRING, item STRING,
      quantity INT, amount_cents BIGINT, at TIMESTAMP
    watermark: {{column: value.at, delay: 2 minutes}}
    dead-letters: {dead}
    rules:
      - {{name: paid, expect: value.amount_cents > 0, otherwise: drop}}
  customers:
    table: ./customers

steps:
  cleaned:
    sql: |
      SELECT o.value.order, o.value.item, o.value.quantity, o.value.amount_cents,
             o.value.country, o.at, c.name, c.segment, o.partition, o.offset
      FROM orders o
      LEFT JOIN customers c ON o.value.customer = c.customer
  revenue:
    sql: |
      SELECT date_format(window.start, 'yyyy-MM-dd HH:mm') AS minute,
             count(*) AS orders,
             sum(amount_cents) AS amount_cents
      FROM cleaned
      GROUP BY window(at, '1 minute')

sinks:
  per_minute:
    from: revenue
    topic: {revenue}
    partitions: 1
    key: minute
    mode: update          # a minute is written again whenever orders are added to it
    delivery: exactly-once
  table:
    from: cleaned
    table: ./orders-table
    partition-by: country
"""


def missing_requirement() -> str | None:
    """What this machine lacks for the Spark half, in one line with what to do; None when all is there."""
    from importlib.util import find_spec

    from tidelog.pipelines.errors import PipelineError
    from tidelog.pipelines.spark.java import find_java

    for package, name in (("pyspark", "PySpark"), ("pyarrow", "PyArrow"), ("matplotlib", "Matplotlib")):
        if find_spec(package) is None:
            return f"{name} is not installed: pip install 'tidelog[spark]'"
    try:
        find_java()
    except PipelineError as error:
        return str(error)
    return None


class LiveOrders:
    """Orders that come in while the pipeline runs, with bad ones among them; knows what should come of them."""

    def __init__(self, client: argparse.Namespace, count: int, first: int) -> None:
        self._producer = connect_producer(client, {"acks": "all", "enable.idempotence": True, "linger.ms": 5})
        self._orders = list(
            make_orders(count, first=first, from_ms=UNTIL_MS, until_ms=UNTIL_MS + LIVE_MINUTES * 60_000)
        )
        self.count = count
        self.amount_cents = 0
        self.unreadable = 0
        self.unpaid = 0
        self.written = 0
        """Records, good and bad."""
        self._thread = threading.Thread(target=self._write, name="live orders", daemon=True)
        self._started = False
        self.ended = threading.Event()

    def start_once(self) -> None:
        if not self._started:
            self._started = True
            self._thread.start()

    def _write(self) -> None:
        started = time.monotonic()
        for number, (key, value) in enumerate(self._orders):
            due = started + LIVE_SECONDS * number / self.count
            if number % 50 == 0 and (wait := due - time.monotonic()) > 0:
                self._producer.poll(wait)
            self._send(key, value)
            self.amount_cents += json.loads(value)["amount_cents"]
            if number % BAD_EVERY == 0:
                self._send(key, _BAD[number // BAD_EVERY % len(_BAD)])
                self.unreadable += 1
            elif number % BAD_EVERY == BAD_EVERY // 2:
                self._send(key, json.dumps({**json.loads(value), "amount_cents": 0}).encode())
                self.unpaid += 1
        self._producer.flush(3 * SILENCE_SECONDS_MAX)
        self.ended.set()

    def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, value, key)
                break
            except BufferError:
                self._producer.poll(0.05)
        self.written += 1


class PipelineHalf:
    """Runs the pipeline and holds what came of it."""

    def __init__(
        self, client: argparse.Namespace, directory: Path, tidelog: str, say: Callable[[str], None], *, watch: bool
    ) -> None:
        self._client = client
        self._directory = directory
        self._tidelog = tidelog
        self._say = say
        self._watch = watch
        self.problems: list[str] = []
        self.seconds: dict[str, float] = {}
        self.windows: list[dict[str, Any]] = []
        self.statuses: list[QueryStatus] = []
        self.audit: Audit | None = None
        self.live: LiveOrders | None = None
        self.dead_letters = 0
        self.table_rows = 0
        self.file = directory / "pipeline.yaml"
        self.chart = directory / "revenue.png"
        self.page = directory / "index.html"

    @property
    def bootstrap(self) -> str:
        return str(self._client.bootstrap)

    def play(self, backlog: int, backlog_cents: int, written: Mapping[str, Any]) -> None:
        """`backlog` orders worth `backlog_cents` are in the topic already."""
        from tidelog.cli.demo_report import draw_chart, write_page
        from tidelog.pipelines.run.runner import open_session
        from tidelog.pipelines.spec.read import read_pipeline

        self._prepare()
        pipeline = read_pipeline(self.file)
        started = time.perf_counter()
        spark = open_session(pipeline, None)
        self.seconds["session"] = time.perf_counter() - started
        self._say(f"Spark {spark.version} on {spark.sparkContext.master} in {format_seconds(self.seconds['session'])}")
        try:
            self.live = LiveOrders(self._client, max(backlog // 5, 1), first=backlog)
            self._stream(spark, pipeline, backlog)
            self._check(spark, backlog, backlog_cents)
            self._archive_and_audit(spark)
        finally:
            spark.stop()
        draw_chart(self.windows, self.chart)
        write_page(self, written, self.page)

    def _prepare(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        numbers = range(CUSTOMERS)
        table = pa.table(
            {
                "customer": [f"customer-{number:04d}" for number in numbers],
                "name": [f"Skipper {number:04d}" for number in numbers],
                "segment": [_SEGMENTS[number % len(_SEGMENTS)] for number in numbers],
            }
        )
        (self._directory / "customers").mkdir(parents=True, exist_ok=True)
        pq.write_table(table, self._directory / "customers" / "customers.parquet")
        bootstrap = self._client.bootstrap
        serve = f"{self._tidelog} serve --data {self._directory / 'data'} --listen {bootstrap}"
        text = PIPELINE.format(
            serve=serve,
            tidelog=self._tidelog,
            path=self.file,
            bootstrap=bootstrap,
            topic=TOPIC,
            dead=DEAD_TOPIC,
            revenue=REVENUE_TOPIC,
        )
        self.file.write_text(text, encoding="utf-8")

    def _stream(self, spark: SparkSession, pipeline: Any, backlog: int) -> None:
        """Runs the pipeline until every order, those of the live stream too, went through both queries."""
        from tidelog.cli.pipeline_view import make_view
        from tidelog.pipelines.run.runner import PipelineRun

        live = self.live
        assert live is not None
        view = make_view(pipeline, as_json=False, quiet=not self._watch)
        run = PipelineRun(
            pipeline,
            bootstrap=self._client.bootstrap,
            report=lambda text: self.problems.append(text),
            show_rows=view.show_rows,
            spark=spark,
        )
        self.statuses = run.statuses
        view.watch(run.statuses)
        started = time.perf_counter()

        def tick() -> None:
            if all(status.batches for status in run.statuses):
                # Both queries are through with what was there: now it gets lively.
                live.start_once()
            through = backlog + live.written
            if live.ended.is_set() and all(status.rows_in >= through for status in run.statuses):
                run.stop.set()
            elif time.perf_counter() - started > SECONDS_MAX:
                self.problems.append(f"the pipeline did not read everything within {SECONDS_MAX:.0f} s")
                run.stop.set()
            view.tick()

        with view:
            run.run(tick)
        self.seconds["stream"] = time.perf_counter() - started
        rows = backlog + live.written
        self._say(
            f"{format_count(rows)} records through two queries in {format_seconds(self.seconds['stream'])}, "
            f"{format_count(live.written)} of them while they ran"
        )

    # -- what came of it -------------------------------------------------------------------------------------------

    def _check(self, spark: SparkSession, backlog: int, backlog_cents: int) -> None:
        from tidelog.pipelines.tables.table_sink import read_table

        live = self.live
        assert live is not None
        orders, cents = backlog + live.count, backlog_cents + live.amount_cents
        latest = {record["minute"]: record for record in self._read(REVENUE_TOPIC)}
        self.windows = [latest[minute] for minute in sorted(latest)]
        self.dead_letters = len(self._read(DEAD_TOPIC, parse=False))
        table = read_table(spark, str(self._directory / "orders-table"))
        self.table_rows, table_cents = table.selectExpr("count(*)", "coalesce(sum(amount_cents), 0)").collect()[0]
        for what, found, wanted in (
            ("orders in the windows", sum(window["orders"] for window in self.windows), orders),
            ("cents in the windows", sum(window["amount_cents"] for window in self.windows), cents),
            ("orders in the table", self.table_rows, orders),
            ("cents in the table", table_cents, cents),
            ("dead letters", self.dead_letters, live.unreadable + live.unpaid),
        ):
            if found != wanted:
                self.problems.append(f"{format_count(found)} {what}, not {format_count(wanted)}")
        if not self.problems:
            self._say(
                f"windows and table hold {format_count(orders)} orders, each once; "
                f"{format_count(self.dead_letters)} bad records are in {DEAD_TOPIC}"
            )

    def _read(self, topic: str, *, parse: bool = True) -> list[Any]:
        """The committed records of a topic of one partition."""
        from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

        settings = {"group.id": "tidelog-demo", "enable.partition.eof": True, "isolation.level": "read_committed"}
        consumer = connect_consumer(self._client, settings)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Any] = []
        deadline = time.monotonic() + SILENCE_SECONDS_MAX
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(10_000, timeout=0.2):
                    error = message.error()
                    if error is None:
                        found.append(json.loads(message.value() or b"") if parse else message.value())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found
        finally:
            consumer.close()
        return found

    def _archive_and_audit(self, spark: SparkSession) -> None:
        from tidelog.pipelines.jobs.archive import Archive, archive_pipeline
        from tidelog.pipelines.jobs.audit import audit
        from tidelog.pipelines.run.runner import PipelineRun

        path = str((self._directory / "archive").absolute())
        started = time.perf_counter()
        run = PipelineRun(
            archive_pipeline(Archive(topics=[TOPIC], path=path)),
            bootstrap=self._client.bootstrap,
            report=lambda text: self.problems.append(text),
            show_rows=lambda *_: None,
            spark=spark,
        )
        run.run()
        self.seconds["archive"] = time.perf_counter() - started
        rows = run.statuses[0].rows_in
        self._say(f"{format_count(rows)} records archived, {format_rate(rows, self.seconds['archive'])}")
        started = time.perf_counter()
        self.audit = audit(spark, TOPIC, path, bootstrap=self._client.bootstrap)
        self.seconds["audit"] = time.perf_counter() - started
        if self.audit.is_same:
            self._say(
                f"log and archive audited in {format_seconds(self.seconds['audit'])}: the same records, bit for bit"
            )
        else:
            self.problems.append("the audit found differences between log and archive")

    def as_document(self) -> dict[str, Any]:
        assert self.live is not None
        assert self.audit is not None
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "records": sum(status.rows_in for status in self.statuses) // max(len(self.statuses), 1),
            "live_records": self.live.written,
            "dead_letters": self.dead_letters,
            "table_rows": self.table_rows,
            "windows": self.windows,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "queries": [status.as_document() for status in self.statuses],
            "audit": self.audit.as_document(),
            "pipeline": str(self.file),
            "chart": str(self.chart),
            "page": str(self.page),
        }

"""`python -m benchmarks.pipelines`: Tidelog's pipelines on Tidelog beside Spark's plain connector on Apache Kafka.

One Spark session (`local[2]`) and both brokers run throughout; every case runs on one side and then on the other, the
first time unmeasured. Ratios are rows per second, Tidelog's by the plain connector's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import MissingTool, resolve_jars, start_kafka
from benchmarks.pipelines.cases import (
    GROWTH,
    GROWTH_PARTITIONS,
    PARTITIONS,
    SHAPES,
    Run,
    Shape,
    run_plain,
    run_tidelog,
    timed,
)
from benchmarks.report import RESULTS, describe_machine, format_value
from benchmarks.tidelog_node import start_tidelog
from tidelog.pipelines import PipelineError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDES = {"plain on Kafka": run_plain, "Tidelog": run_tidelog}
TARGETS = {"parquet": 1.0, "delta": 1.0, "topic": 0.7}
"""Where to, and the least that Tidelog's rows per second may be of the plain connector's."""

_numbers = itertools.count()


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def make_topic(bootstrap: str, name: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
    return name


def fill(bootstrap: str, shape: Shape) -> str:
    """A source topic with the records of a shape."""
    topic = make_topic(bootstrap, f"source-{shape.name}", PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    padding = b"x" * shape.value_bytes
    for number in range(shape.records):
        while True:
            try:
                producer.produce(topic, padding, b"key-%d" % (number % 10_000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return topic


class Bench:
    """Both brokers, one session, and what was measured: case -> side -> rows per second."""

    def __init__(self, spark: SparkSession, bootstraps: dict[str, str], directory: Path, share: float) -> None:
        self.spark, self.bootstraps, self.directory, self.share = spark, bootstraps, directory, share
        self.rates: dict[str, dict[str, list[float]]] = {}

    def shape(self, shape: Shape) -> Shape:
        return shape._replace(records=int(shape.records * self.share))

    def measure(self, case: str, shape: Shape, target: str, partitions: int, rounds: int) -> None:
        """The first round is not kept: it is the JVM's to compile in."""
        for number in range(rounds + 1):
            for side, action in SIDES.items():
                bootstrap = self.bootstraps[side]
                place = self.directory / f"run-{next(_numbers)}"
                sink = make_topic(bootstrap, f"sink-{next(_numbers)}", partitions) if target == "topic" else ""
                run = Run(self.spark, bootstrap, f"source-{shape.name}", place, sink)
                rate = timed(action, run, target, shape.records)
                say(f"  {case:28} {side:16} {rate:12,.0f} rows/s{'' if number else '  (warm-up)'}")
                if number:
                    self.rates.setdefault(case, {}).setdefault(side, []).append(rate)
                shutil.rmtree(place)

    def table(self) -> str:
        lines = [
            "| case | plain on Kafka, rows/s | Tidelog, rows/s | ratio | target | |",
            "|---|---:|---:|---:|---|---|",
        ]
        for case, sides in self.rates.items():
            plain, ours = (statistics.median(sides[side]) for side in SIDES)
            least = next(limit for target, limit in TARGETS.items() if target in case)
            ratio = ours / plain
            verdict = "ok" if ratio >= least else "even" if ratio >= 0.95 * least else "missed"
            values = f"{format_value(plain)} | {format_value(ours)} | {ratio:.2f}"
            lines.append(f"| {case} | {values} | >= {least:g}x | {verdict} |")
        return "\n".join(lines)

    def keep(self, directory: Path, rounds: int) -> Path:
        machine = {**describe_machine(), "rounds": str(rounds), "records": f"{self.share:.0%} of the full number"}
        stem = directory / f"{time.strftime('%Y-%m-%d')}-{machine['cores']}c-pipelines"
        stem.with_suffix(".json").write_text(json.dumps({"machine": machine, "rates": self.rates}, indent=1) + "\n")
        facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
        text = f"# Pipelines beside Spark's plain connector\n\n{facts}\n\nMedians over the rounds.\n\n{self.table()}\n"
        stem.with_suffix(".md").write_text(text)
        return stem.with_suffix(".md")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, one round; no verdict")
    parser.add_argument("--rounds", type=int, default=2, help="measured rounds of every case (default 2)")
    parser.add_argument("--no-results", action="store_true", help="print the table and keep nothing")
    parser.add_argument(
        "--target", action="append", choices=tuple(TARGETS), help="only into this (several times: these)"
    )
    parser.add_argument("--no-growth", action="store_true", help="without the cost of 1 to 64 partitions")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    rounds = 1 if args.quick else args.rounds
    try:
        resolve_jars()
        spark = session("local[2]", tables=("delta",), config={"spark.driver.memory": "2g"})
    except (MissingTool, PipelineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        stack.callback(spark.stop)
        brokers = {
            "plain on Kafka": stack.enter_context(start_kafka(directory / "kafka")),
            "Tidelog": stack.enter_context(start_tidelog(directory / "tidelog")),
        }
        bench = Bench(
            spark, {side: broker.bootstrap for side, broker in brokers.items()}, directory, 0.2 if args.quick else 1
        )
        wanted = args.target or list(TARGETS)
        for shape in SHAPES:
            for broker in brokers.values():
                fill(broker.bootstrap, bench.shape(shape))
            for target in wanted:
                bench.measure(f"{shape.name} to {target}", bench.shape(shape), target, PARTITIONS, rounds)
        if "topic" in wanted and not args.no_growth:
            for broker in brokers.values():
                fill(broker.bootstrap, bench.shape(GROWTH))
            for count in GROWTH_PARTITIONS:
                bench.measure(f"{count} partitions, to topic", bench.shape(GROWTH), "topic", count, rounds)
        print(bench.table())
        if not args.no_results:
            say(f"kept in {bench.keep(RESULTS, rounds).name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

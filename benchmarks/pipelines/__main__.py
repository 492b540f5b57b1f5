"""`python -m benchmarks.pipelines`: Tidelog's pipelines on Tidelog beside Spark's plain connector on Apache Kafka.

One Spark session (`local[2]`) and both brokers run throughout. In every round each case runs on every side, once from
the first to the last and once the other way; the first round is not kept. The ratio is that of rows per second,
Tidelog's pipeline on Tidelog by the plain connector on Kafka; the plain connector on Tidelog shows what is the broker's
part of it. What a run has written is counted, and a run that lost or doubled rows ends the benchmark. With `--strict` a
target that is missed makes the exit code 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from pyspark.errors import StreamingQueryException
from tests.servers.apache_kafka import MissingTool, resolve_jars, start_kafka
from tests.servers.tidelog_node import start_tidelog
from tests.waiting import wait_until

from benchmarks.figures import Figure
from benchmarks.pipelines.cases import (
    GROWTH,
    SHAPES,
    Run,
    Shape,
    count_rows,
    run_plain,
    run_tidelog,
    timed,
)
from benchmarks.report import RESULTS, describe_machine, format_value
from tidelog.pipelines import PipelineError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Side(NamedTuple):
    """The contender that writes, and the broker it works with."""

    name: str
    broker: str
    action: Callable[[Run, str], None]


PLAIN, OURS = Side("plain on Kafka", "kafka", run_plain), Side("Tidelog", "tidelog", run_tidelog)
SIDES = (PLAIN, Side("plain on Tidelog", "tidelog", run_plain), OURS)
TARGETS = {"parquet": 1.0, "delta": 1.0, "topic": 0.7}
"""Where to, and the least that Tidelog's rows per second may be of the plain connector's."""

ATTEMPTS_MAX = 3
"""Of one run."""

_numbers = itertools.count()


def describe(shape: Shape) -> str:
    return f"{shape.name}: {shape.records:,} x {shape.value_bytes:,} B in {shape.partitions} partitions"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def make_topic(bootstrap: str, name: str, partitions: int) -> str:
    """A topic whose partitions can all be written. A broker may show leaders a second or two before that, and what a
    producer makes of it is not what is measured here."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()

    def is_writable() -> bool:
        asked = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}
        return all(future.exception(timeout=30) is None for future in admin.list_offsets(asked).values())

    wait_until(is_writable, f"every partition of {name} answers", 120, interval_s=0.1)
    return name


def fill(bootstrap: str, shape: Shape) -> str:
    """A source topic with the records of a shape."""
    topic = make_topic(bootstrap, f"source-{shape.name}", shape.partitions)
    settings = {"linger.ms": 50, "queue.buffering.max.messages": 500_000, "log_level": 2}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    padding = b"x" * shape.value_bytes
    for number in range(shape.records):
        while True:
            try:
                producer.produce(topic, padding, b"key-%d" % (number % 10_000), number % shape.partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return topic


class Case(NamedTuple):
    """One line of the table."""

    name: str
    shape: Shape
    target: str
    sides: tuple[Side, ...]
    at_least: float | None
    """Of the ratio; None where the figure is there to be looked at."""


def choose_cases(targets: list[str], growth: bool) -> list[Case]:
    cases = [
        Case(f"{shape.name} to {target}", shape, target, SIDES, TARGETS[target])
        for shape in SHAPES
        for target in targets
    ]
    if growth and "topic" in targets:
        for shape in GROWTH:
            name = f"{shape.partitions} to {shape.partitions} partitions"
            cases.append(Case(name, shape, "topic", (PLAIN, OURS), None))
    return cases


def reason_of(error: Exception) -> str:
    """The deepest cause that Java names, else the first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1 if causes else 0].strip()[:200]


class WrongCount(Exception):
    """A run lost or doubled rows: how fast it was does not matter."""


class Bench:
    """Both brokers, one session, and what was measured: case -> side -> rows per second."""

    def __init__(
        self, spark: SparkSession, bootstraps: dict[str, str], directory: Path, share: float, cases: list[Case]
    ) -> None:
        self.spark, self.bootstraps, self.directory = spark, bootstraps, directory
        self.share, self.cases = share, cases
        self.rates: dict[str, dict[str, list[float]]] = {}
        self.failures: list[str] = []

    def shape(self, shape: Shape) -> Shape:
        return shape._replace(records=int(shape.records * self.share))

    def measure(self, case: Case, rounds: int) -> None:
        """The first round is not kept: it is the JVM's to compile in."""
        for number in range(rounds + 1):
            for side in case.sides if number % 2 else case.sides[::-1]:
                rate = self.measure_once(case, side)
                if rate is None:
                    continue
                say(f"  {case.name:28} {side.name:16} {rate:12,.0f} rows/s{'' if number else '  (warm-up)'}")
                if number:
                    self.rates.setdefault(case.name, {}).setdefault(side.name, []).append(rate)

    def measure_once(self, case: Case, side: Side) -> float | None:
        """Rows per second of one run. One that fails, of whichever side, is repeated and told in the results; None if
        it fails every time: the other figures are not lost for it."""
        bootstrap, records = self.bootstraps[side.broker], self.shape(case.shape).records
        for _ in range(ATTEMPTS_MAX):
            place = self.directory / f"run-{next(_numbers)}"
            sink = ""
            if case.target == "topic":
                sink = make_topic(bootstrap, f"sink-{next(_numbers)}", case.shape.partitions)
            run = Run(self.spark, bootstrap, f"source-{case.shape.name}", place, sink)
            try:
                rate = timed(side.action, run, case.target, records)
            except (StreamingQueryException, TimeoutError) as error:
                self.failures.append(f"{case.name}, {side.name}: {reason_of(error)}")
                say(f"  {case.name:28} {side.name:16} failed: {reason_of(error)}")
                continue
            if (written := count_rows(run, case.target)) != records:
                raise WrongCount(f"{case.name}, {side.name}: {written:,} rows were written of {records:,}")
            shutil.rmtree(place)
            return rate
        return None

    def table(self) -> str:
        head = " | ".join(f"{side.name}, rows/s" for side in SIDES)
        lines = [f"| case | {head} | ratio | target | |", "|---|---:|---:|---:|---:|---|---|"]
        for case in (case for case in self.cases if case.name in self.rates):
            medians = {name: statistics.median(rates) for name, rates in self.rates[case.name].items()}
            ratio = self.ratio(case)
            target = Figure(case.name, case.name, "rows/s", at_least=case.at_least)
            values = " | ".join(format_value(medians.get(side.name)) for side in SIDES)
            verdict = target.verdict(ratio).value
            shown = "-" if ratio is None else f"{ratio:.2f}"
            lines.append(f"| {case.name} | {values} | {shown} | {target.target} | {verdict} |")
        return "\n".join(lines)

    def missed(self) -> list[str]:
        """Cases whose ratio is below their target, or that have none."""
        held = [case for case in self.cases if case.at_least is not None]
        return [case.name for case in held if (self.ratio(case) or 0) < (case.at_least or 0)]

    def ratio(self, case: Case) -> float | None:
        """None where a side has failed whenever it was tried."""
        ours, plain = (self.rates.get(case.name, {}).get(side.name) for side in (OURS, PLAIN))
        return statistics.median(ours) / statistics.median(plain) if ours and plain else None

    def keep(self, directory: Path, options: Mapping[str, str]) -> Path:
        machine = {**describe_machine(), "spark": f"{self.spark.version}, local[2]", **options}
        if self.failures:
            machine["runs that failed and were repeated"] = "; ".join(self.failures)
        machine |= {"records": f"{self.share:.0%} of {', '.join(map(describe, (*SHAPES, *GROWTH)))}"}
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
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--no-results", action="store_true", help="print the table and keep nothing")
    parser.add_argument(
        "--target", action="append", choices=tuple(TARGETS), help="only into this (several times: these)"
    )
    parser.add_argument("--no-growth", action="store_true", help="without the cost of 1 to 64 partitions")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    rounds, started = 1 if args.quick else args.rounds, time.monotonic()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
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
            "kafka": stack.enter_context(start_kafka(directory / "kafka")),
            "tidelog": stack.enter_context(start_tidelog(directory / "tidelog")),
        }
        bootstraps = {kind: broker.bootstrap for kind, broker in brokers.items()}
        cases = choose_cases(args.target or list(TARGETS), not args.no_growth)
        bench = Bench(spark, bootstraps, directory, 0.2 if args.quick else 1, cases)
        for shape, broker in itertools.product(dict.fromkeys(case.shape for case in cases), brokers.values()):
            fill(broker.bootstrap, bench.shape(shape))
        try:
            for case in cases:
                bench.measure(case, rounds)
        except WrongCount as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(bench.table())
        if not args.no_results:
            options = {"rounds": str(rounds), "duration": f"{(time.monotonic() - started) / 60:.0f} min"}
            say(f"kept in {bench.keep(RESULTS, options).name}")
    missed = bench.missed() if args.strict else []
    if missed:
        print(f"below target: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

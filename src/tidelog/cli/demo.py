"""`tidelog demo`: a node, a topic, a pipeline on Spark, all counted and shown; nothing needs to be set up.

The node runs inside this process on a free port. What was acknowledged is compared with what is read, before and after
a restart: number, offsets, order within each partition and for each customer, a checksum of all bytes, and the sum of
all orders. Where Java and PySpark are, demo_pipeline.py plays on from there. If anything does not add up the command
says what and fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import (
    Column,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    print_fields,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from tidelog.cli.bench_cases import Latencies
    from tidelog.cli.demo_orders import Tally
    from tidelog.cli.demo_pipeline import PipelineHalf
    from tidelog.testing.broker import Broker

TOPIC = "orders"
SINGLES_TOPIC = "pings"
SINGLES = 500
RECORDS_MAX = 1_000_000
"""The orders are held in memory to compare them."""

DIRECTORY_DEFAULT = ".demo"
MARKER = "made-by-tidelog-demo"
"""Only a directory with this file in it is wiped by the next demo."""

MADE = ("data", "customers", "orders-table", "archive", "checkpoint")
"""The directories a demo makes."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="a node, a topic and a pipeline on Spark, counted and shown",
        description="Starts a node in this process, writes orders to a topic, reads them back, restarts the node, "
        "reads again, and checks that everything is there once and in order. Then a pipeline on Spark turns the orders "
        "into revenue per minute and a table, the log is archived and audited, and a page with a chart is written.",
    )
    parser.add_argument("--records", type=int, default=100_000, metavar="N", help="orders to write (default 100,000)")
    parser.add_argument("--partitions", type=int, default=4, metavar="N", help="partitions of the topic (default 4)")
    parser.add_argument(
        "--data",
        default=DIRECTORY_DEFAULT,
        metavar="DIR",
        help=f"for the data, kept afterwards (default {DIRECTORY_DEFAULT})",
    )
    parser.add_argument("--broker-only", action="store_true", help="leave out the pipeline on Spark")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.records <= RECORDS_MAX or args.partitions < 1:
        raise UsageError(f"--records must be 1 to {RECORDS_MAX:,} and --partitions at least 1")
    data = prepare_directory(Path(args.data))
    demo = Demo(args, data)
    try:
        demo.play()
    finally:
        demo.stop()
    if args.json:
        print_json(demo.as_document())
    else:
        demo.show()
    if demo.problems:
        raise CommandError(f"the demo does not add up: {'; '.join(demo.problems)}")
    return 0


def prepare_directory(directory: Path) -> Path:
    """An empty data directory below `directory`; what an earlier demo left is removed, anything else is refused."""
    data = directory / "data"
    try:
        if directory.exists() and any(directory.iterdir()):
            if not (directory / MARKER).is_file():
                raise CommandError(f"{directory} holds something that is not from a demo; choose another with --data")
            for made in MADE:
                shutil.rmtree(directory / made, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MARKER).touch()
    except OSError as error:
        raise CommandError(f"cannot use {directory}: {error.strerror}; choose another with --data") from None
    return data


class Demo:
    """The play in its acts, with what was measured and what went wrong."""

    def __init__(self, args: argparse.Namespace, data: Path) -> None:
        self._records: int = args.records
        self._partitions: int = args.partitions
        self._talks: bool = not args.json
        self._data = data
        self._broker: Broker | None = None
        self.problems: list[str] = []
        self._seconds: dict[str, float] = {}
        self._produced: Tally | None = None
        self._consumed: Tally | None = None
        self._singles: Latencies | None = None
        self._rss_bytes = 0
        self._broker_only: bool = args.broker_only
        self._half: PipelineHalf | None = None
        self._missing: str | None = None

    def play(self) -> None:
        from tidelog.cli.bench_cases import measure_single
        from tidelog.cli.demo_orders import consume_orders, produce_orders

        broker = self._start()
        started = time.perf_counter()
        broker.create_topic(TOPIC, partitions=self._partitions)
        broker.create_topic(SINGLES_TOPIC)
        self._say(
            f"topic {TOPIC} with {self._partitions} partitions in {format_seconds(time.perf_counter() - started)}"
        )
        client = argparse.Namespace(
            bootstrap=broker.bootstrap_servers,
            client_settings=[],
            topic=None,
            size=100,
            singles=SINGLES,
            records=self._records,
        )
        self._produced, self._seconds["produce"] = produce_orders(client, TOPIC, self._records)
        self._say(f"{format_count(self._produced.count)} orders written and acknowledged by all in-sync replicas")

        self._consumed, self._seconds["consume"] = consume_orders(client, TOPIC, self._partitions, self._records)
        self.problems += self._consumed.differences(self._produced, "reading")
        self._say(f"{format_count(self._consumed.count)} orders read back and compared")

        self._singles = measure_single(client, SINGLES_TOPIC)

        started = time.perf_counter()
        broker.restart()
        self._seconds["restart"] = time.perf_counter() - started
        again, _ = consume_orders(client, TOPIC, self._partitions, self._records)
        self.problems += again.differences(self._produced, "reading after a restart")
        restarted = f"node stopped and started again in {format_seconds(self._seconds['restart'])}"
        self._say(f"{restarted}, {format_count(again.count)} orders read back and compared")
        if not self._broker_only and not self.problems:
            self._play_pipeline(client)

    def _play_pipeline(self, client: argparse.Namespace) -> None:
        from tidelog.cli.demo_pipeline import PipelineHalf, missing_requirement
        from tidelog.pipelines.errors import MissingRequirement, PipelineError

        self._missing = missing_requirement()
        if self._missing is not None:
            return
        assert self._produced is not None
        half = PipelineHalf(client, self._data.parent, command_name(), self._say, watch=self._talks)
        try:
            half.play(self._produced.count, self._produced.amount_cents, self._broker_document())
        except MissingRequirement as error:
            self._missing = str(error)
            return
        except PipelineError as error:
            raise CommandError(str(error)) from None
        self._half = half
        self.problems += half.problems

    def _start(self) -> Broker:
        started = time.perf_counter()
        from tidelog.testing.broker import Broker

        imported = time.perf_counter()
        self._broker = Broker(data=self._data)
        self._broker.start()
        self._seconds["import"] = imported - started
        self._seconds["start"] = time.perf_counter() - imported
        self._rss_bytes = resident_bytes()
        self._say(
            f"node on {self._broker.bootstrap_servers} in {format_seconds(self._seconds['start'])} "
            f"(imports {format_seconds(self._seconds['import'])})"
        )
        return self._broker

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def _say(self, text: str) -> None:
        if self._talks:
            print(f"- {text}", flush=True)

    def as_document(self) -> dict[str, Any]:
        document = self._broker_document()
        if self._half is not None:
            document["pipeline"] = self._half.as_document()
        elif self._missing is not None:
            document["pipeline_missing"] = self._missing
        return document

    def _broker_document(self) -> dict[str, Any]:
        assert self._produced is not None
        assert self._consumed is not None
        assert self._singles is not None
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "records": self._consumed.count,
            "value_bytes": self._consumed.size_bytes,
            "amount_cents": self._consumed.amount_cents,
            "start_ms": round(self._seconds["start"] * 1000, 1),
            "restart_ms": round(self._seconds["restart"] * 1000, 1),
            "produce_records_per_second": round(self._produced.count / self._seconds["produce"], 1),
            "consume_records_per_second": round(self._consumed.count / self._seconds["consume"], 1),
            "single_record": self._singles.as_document(),
            "rss_bytes": self._rss_bytes,
            "data": str(self._data),
            "partitions": [
                {"partition": number, "records": partition.count, "bytes": partition.size_bytes, "crc32": partition.crc}
                for number, partition in sorted(self._consumed.partitions.items())
            ],
        }

    def show(self) -> None:
        """The tables and what to try next."""
        assert self._produced is not None
        assert self._consumed is not None
        assert self._singles is not None
        p50, _, p99, _, _ = self._singles.summary_ms()
        produce, consume = self._seconds["produce"], self._seconds["consume"]
        print()
        print_fields(
            [
                ("orders", f"{format_count(self._consumed.count)}, {format_bytes(self._consumed.size_bytes)}"),
                ("worth", f"{self._consumed.amount_cents / 100:,.2f}"),
                (
                    "produced",
                    f"{format_rate(self._produced.count, produce)} ({format_seconds(produce)}, acks=all, idempotent)",
                ),
                ("consumed", f"{format_rate(self._consumed.count, consume)} ({format_seconds(consume)})"),
                ("one record at a time", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms (acks=1)"),
                ("node start", format_seconds(self._seconds["start"])),
                ("node restart", format_seconds(self._seconds["restart"])),
                ("memory", f"{format_bytes(self._rss_bytes)} (once the node was up)"),
            ]
        )
        print()
        columns = [Column(name, right=True) for name in ("partition", "records", "offsets", "size")]
        rows = [
            [
                number,
                partition.count,
                f"{partition.first}..{partition.last}",
                format_bytes(partition.size_bytes),
                f"{partition.crc:08x}",
                "same" if partition == self._produced.partitions.get(number) else "DIFFERENT",
            ]
            for number, partition in sorted(self._consumed.partitions.items())
        ]
        print_table([*columns, Column("crc32"), Column("written = read")], rows)
        if self._half is not None:
            from tidelog.cli.demo_outcome import print_outcome

            print_outcome(self._half)
        if self.problems:
            return
        tidelog = command_name()
        print()
        if self._missing is not None:
            print(f"The pipeline on Spark was left out. {self._missing}")
            print()
        print(f"Everything written was read, once and in order. The data is in {self._data}. Try next:")
        listen = f" --listen {self._half.bootstrap}" if self._half is not None else ""
        print(f"  {tidelog} serve --data {self._data}{listen}")
        print("and in another terminal")
        if self._half is not None:
            print(f"  export TIDELOG_BOOTSTRAP={self._half.bootstrap}")
            print(f"  {tidelog} pipeline run {os.path.relpath(self._half.file)}  # goes on where the demo left off")
        print(f"  {tidelog} topics describe {TOPIC}")
        print(f"  {tidelog} consume {TOPIC} --offset -3")
        print(f"  {tidelog} produce {TOPIC} --key you --value hello")
        print(f"  {tidelog} log dump {self._data / (TOPIC + '-0')}  # the segment files, without a node")


def command_name() -> str:
    """What to type for this command: it need not be on the path, as after `make demo` in a fresh clone."""
    called = Path(sys.argv[0])
    if called.name != "tidelog" or shutil.which("tidelog"):
        return "tidelog"
    near = os.path.relpath(called)
    return str(called.absolute()) if near.startswith("..") else near


def resident_bytes() -> int:
    """Memory of this process now; 0 where the system does not tell."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except (OSError, ImportError, ValueError):
        return 0

"""`python -m benchmarks`: Tidelog beside a real Apache Kafka on this machine, with the same clients.

Starts and replays are measured first, each with fresh processes in turn. Then both brokers run, and only one at a time
has load: in every round each case runs on one and then on the other, in the next round the other way round. Before the
first round every case runs once in full on both, unmeasured, so that the JVM has compiled what it is measured by.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.servers.apache_kafka import MissingTool, resolve_jars, start_kafka
from tests.servers.broker_process import BrokerProcess
from tests.servers.tidelog_node import start_tidelog

from benchmarks.cluster_cases import CLUSTER_CASES, FAILOVER, failover
from benchmarks.cluster_processes import ClusterProcesses, start_cluster
from benchmarks.echo_case import ECHO, measure_echo
from benchmarks.figures import summarise
from benchmarks.group_cases import GROUP_CASES, REPLAY, SETTINGS, measure_replay
from benchmarks.load_cases import LOAD_CASES, LoadCase
from benchmarks.node_cases import NODES, measure_nodes
from benchmarks.report import RESULTS, table, write_results
from benchmarks.start_case import measure_start

KINDS = ("kafka", "tidelog")
START = "start"
PARTS = {
    "node": (START, *(case.name for case in LOAD_CASES), ECHO),
    "groups": (REPLAY, *(case.name for case in GROUP_CASES)),
    "cluster": (*(case.name for case in CLUSTER_CASES), FAILOVER, NODES),
}
"""What can be run on its own, and its cases."""
CASE_NAMES = tuple(name for names in PARTS.values() for name in names)

Rounds = dict[str, dict[str, list[float]]]
T = TypeVar("T")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--case", action="append", choices=CASE_NAMES, help="only this case (may be given several times)"
    )
    parser.add_argument("--part", choices=PARTS, help="only the cases of a single node, of groups or of a cluster")
    parser.add_argument("--only", choices=KINDS, help="only this broker; no ratios then")
    parser.add_argument("--rounds", type=int, help="rounds of the load cases (default 3, quick 1)")
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, one round; no verdict")
    parser.add_argument("--results", type=Path, help=f"where the results are kept (default benchmarks/{RESULTS.name})")
    parser.add_argument("--no-results", action="store_true", help="print the table and keep nothing")
    parser.add_argument("--data", type=Path, help="directory for the brokers' data (default: a temporary one)")
    return parser.parse_args()


def keep(rounds: Rounds, kind: str, figures: dict[str, float]) -> None:
    for name, value in figures.items():
        rounds[kind][name].append(value)
    say(f"  {kind:8}" + "  ".join(f"{name.partition('.')[2]}={value:.4g}" for name, value in figures.items()))


def in_turn(items: Iterable[T], number: int) -> list[T]:
    """In every other round the other way round: what follows a load is not always the same broker."""
    return list(items)[:: -1 if number % 2 else 1]


def measure_starts(rounds: Rounds, kinds: list[str], name: str, count: int, directory: Path) -> None:
    """Of fresh processes: `start` or `groups-replay`."""
    measure = measure_start if name == START else measure_replay
    for number in range(count):
        for kind in in_turn(kinds, number):
            say(f"{name}, round {number + 1} of {count}, {kind}")
            place = directory / f"{name}-{kind}-{number}"
            # What the one before has left to the disk would be waited for by the first sync of this one.
            os.sync()
            # Nothing is removed before the last of them: a file system without a journal goes around inodes that were
            # deleted in the last minutes, and makes thousands of files several times slower.
            keep(rounds, kind, measure(kind, place))


class LoadRun(NamedTuple):
    """Cases that share their brokers."""

    name: str
    cases: list[LoadCase]
    settings: Mapping[str, str]
    memory_figure: str


def measure_load(rounds: Rounds, kinds: list[str], load: LoadRun, count: int, share: float, directory: Path) -> None:
    with ExitStack() as stack:
        brokers: dict[str, BrokerProcess] = {}
        cases = load.cases
        for kind in kinds:
            start = start_kafka if kind == "kafka" else start_tidelog
            started = start(directory / f"{load.name}-{kind}", settings=load.settings)
            brokers[kind] = stack.enter_context(started)
        for case in cases:
            for kind, broker in brokers.items():
                say(f"warm-up, {case.name}, {kind}")
                case.run(broker, 1.0)
        for number in range(count):
            for case in cases:
                say(f"round {number + 1} of {count}, {case.name}")
                for kind, broker in in_turn(brokers.items(), number):
                    keep(rounds, kind, case.run(broker, share))
        for kind, broker in brokers.items():
            keep(rounds, kind, {load.memory_figure: broker.rss_bytes() / 2**20})


def measure_cluster(
    rounds: Rounds, kinds: list[str], wanted: list[str], count: int, share: float, directory: Path
) -> None:
    """The same with three nodes of each kind; the loss of a leader comes last, because it restarts nodes."""
    cases = [case for case in CLUSTER_CASES if case.name in wanted]
    with ExitStack() as stack:
        clusters: dict[str, ClusterProcesses] = {}
        for kind in kinds:
            say(f"three nodes, {kind}")
            clusters[kind] = stack.enter_context(start_cluster(kind, directory / f"cluster-{kind}"))
        for case in cases:
            for kind, cluster in clusters.items():
                say(f"warm-up, {case.name}, {kind}")
                case.run(cluster, share)
        for number in range(count):
            for case in cases:
                say(f"round {number + 1} of {count}, {case.name}")
                for kind, cluster in in_turn(clusters.items(), number):
                    keep(rounds, kind, case.run(cluster, share))
        for kind, cluster in clusters.items():
            keep(rounds, kind, {"cluster.loaded_mib": cluster.rss_bytes() / 2**20})
            if FAILOVER in wanted:
                say(f"{FAILOVER}, {kind}")
                for figures in failover(cluster):
                    keep(rounds, kind, figures)


def main() -> int:
    args = parse_arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        resolve_jars()
    except MissingTool as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    kinds = [args.only] if args.only else list(KINDS)
    wanted = args.case or list(PARTS[args.part] if args.part else CASE_NAMES)
    loads = [
        LoadRun("load", [case for case in LOAD_CASES if case.name in wanted], {}, "memory.loaded_mib"),
        LoadRun("groups", [case for case in GROUP_CASES if case.name in wanted], SETTINGS, "groups.loaded_mib"),
    ]
    share = 0.2 if args.quick else 1.0
    count = args.rounds or (1 if args.quick else 3)
    rounds: Rounds = {kind: defaultdict(list) for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=args.data) as directory:
        for name in (START, REPLAY):
            if name in wanted:
                measure_starts(rounds, kinds, name, count, Path(directory))
        for load in loads:
            if load.cases:
                measure_load(rounds, kinds, load, count, share, Path(directory))
        if ECHO in wanted and "tidelog" in kinds:
            for number in range(count):
                say(f"round {number + 1} of {count}, {ECHO}")
                keep(rounds, "tidelog", measure_echo(share))
        if {FAILOVER, *(case.name for case in CLUSTER_CASES)} & set(wanted):
            measure_cluster(rounds, kinds, wanted, count, share, Path(directory))
        if NODES in wanted and "tidelog" in kinds:
            for number in range(count):
                say(f"round {number + 1} of {count}, {NODES}")
                keep(rounds, "tidelog", measure_nodes(Path(directory) / f"{NODES}-{number}", share))
    print(table(summarise(rounds)))
    if not args.no_results:
        options = {"rounds": str(count), "records": f"{share:.0%} of the full number", "cases": ", ".join(wanted)}
        path = write_results(rounds, options, args.results or RESULTS, part=args.part)
        say(f"kept in {path.parent.name}/{path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""One run of the benchmark: every case in rounds, on one contender and then on the other.

In every other round it is the other way round, so that what follows a load is not always the same broker. All brokers
of a case run at the same time, and only one of them has load.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.cases import START
from benchmarks.cluster_cases import CLUSTER_CASES, FAILOVER, failover
from benchmarks.contenders import TIDELOG, Contender
from benchmarks.echo_case import ECHO, measure_echo
from benchmarks.group_cases import GROUP_CASES, REPLAY, SETTINGS, measure_replay
from benchmarks.load_cases import LOAD_CASES, LoadCase
from benchmarks.node_cases import NODES, measure_nodes
from benchmarks.progress import say
from benchmarks.start_case import measure_start

Rounds = dict[str, dict[str, list[float]]]
"""Contender -> figure -> one value per round."""
T = TypeVar("T")


class LoadRun(NamedTuple):
    """Cases that share their brokers."""

    name: str
    cases: Sequence[LoadCase]
    settings: Mapping[str, str]
    memory_figure: str


LOADS = (
    LoadRun("load", LOAD_CASES, {}, "memory.loaded_mib"),
    LoadRun("groups", GROUP_CASES, SETTINGS, "groups.loaded_mib"),
)


class Extent(NamedTuple):
    """How much is measured."""

    rounds: int
    share: float
    """Of the full number of records."""
    warm_up_share: float
    """Of the unmeasured run before the first round. A JVM has to compile what it is measured by."""


def in_turn(items: Iterable[T], number: int) -> list[T]:
    return list(items)[:: -1 if number % 2 else 1]


class Session:
    def __init__(self, contenders: Sequence[Contender], extent: Extent, directory: Path) -> None:
        self._contenders = contenders
        self._extent = extent
        self._directory = directory
        self.rounds: Rounds = {contender.name: defaultdict(list) for contender in contenders}

    def run(self, wanted: Sequence[str]) -> None:
        """All cases of these names."""
        for name in (START, REPLAY):
            if name in wanted:
                self._measure_starts(name)
        for load in LOADS:
            cases = [case for case in load.cases if case.name in wanted]
            if cases:
                self._measure_load(load._replace(cases=cases))
        if ECHO in wanted and TIDELOG.name in self.rounds:
            for number in range(self._extent.rounds):
                self._say_round(number, ECHO)
                self._keep(TIDELOG, measure_echo(self._extent.share))
        if {FAILOVER, *(case.name for case in CLUSTER_CASES)} & set(wanted):
            self._measure_cluster(wanted)
        if NODES in wanted:
            self._measure_nodes()

    def _keep(self, contender: Contender, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.rounds[contender.name][name].append(value)
        shown = "  ".join(f"{name.partition('.')[2]}={value:.4g}" for name, value in figures.items())
        say(f"  {contender.name:8}{shown}")

    def _say_round(self, number: int, name: str) -> None:
        say(f"round {number + 1} of {self._extent.rounds}, {name}")

    def _measure_starts(self, name: str) -> None:
        """Of fresh processes: `start` or `groups-replay`."""
        measure = measure_start if name == START else measure_replay
        for number in range(self._extent.rounds):
            self._say_round(number, name)
            for contender in in_turn(self._contenders, number):
                place = self._directory / f"{name}-{contender.name}-{number}"
                # What the one before has left to the disk would be waited for by the first sync of this one.
                os.sync()
                # Nothing is removed before the last of them: a file system without a journal goes around inodes that
                # were deleted in the last minutes, and makes thousands of files several times slower.
                self._keep(contender, measure(contender.prepare(place)))

    def _measure_load(self, load: LoadRun) -> None:
        with ExitStack() as stack:
            brokers = [
                (each, stack.enter_context(each.start(self._directory / f"{load.name}-{each.name}", load.settings)))
                for each in self._contenders
            ]
            for case in load.cases:
                for contender, broker in brokers:
                    say(f"warm-up, {case.name}, {contender.name}")
                    case.run(broker, self._extent.warm_up_share)
            for number in range(self._extent.rounds):
                for case in load.cases:
                    self._say_round(number, case.name)
                    for contender, broker in in_turn(brokers, number):
                        self._keep(contender, case.run(broker, self._extent.share))
            for contender, broker in brokers:
                self._keep(contender, {load.memory_figure: broker.rss_bytes() / 2**20})

    def _measure_cluster(self, wanted: Sequence[str]) -> None:
        """The same with three nodes of each kind; the loss of a leader comes last, because it restarts nodes."""
        cases = [case for case in CLUSTER_CASES if case.name in wanted]
        with ExitStack() as stack:
            clusters = []
            for contender in self._contenders:
                say(f"three nodes, {contender.name}")
                started = contender.start_cluster(self._directory / f"cluster-{contender.name}")
                clusters.append((contender, stack.enter_context(started)))
            for case in cases:
                for contender, cluster in clusters:
                    say(f"warm-up, {case.name}, {contender.name}")
                    case.run(cluster, self._extent.share)
            for number in range(self._extent.rounds):
                for case in cases:
                    self._say_round(number, case.name)
                    for contender, cluster in in_turn(clusters, number):
                        self._keep(contender, case.run(cluster, self._extent.share))
            for contender, cluster in clusters:
                self._keep(contender, {"cluster.loaded_mib": cluster.rss_bytes() / 2**20})
                if FAILOVER in wanted:
                    say(f"{FAILOVER}, {contender.name}")
                    for figures in failover(cluster):
                        self._keep(contender, figures)

    def _measure_nodes(self) -> None:
        """Kafka has nothing like it."""
        contenders = [contender for contender in self._contenders if not contender.is_kafka]
        for number in range(self._extent.rounds):
            self._say_round(number, NODES)
            for contender in in_turn(contenders, number):
                place = self._directory / f"{NODES}-{contender.name}-{number}"
                self._keep(contender, measure_nodes(place, self._extent.share, contender.program))

"""Whole clusters under every fault the simulator knows: all invariants hold, and once the faults end all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest
from tests.simulation.cluster.profile import CLUSTER_STORMS, ClusterProfile, as_drawn
from tests.simulation.cluster.run import run_cluster_seed

SEEDS = range(1, 8)
STORM_SEEDS = range(20, 20 + len(CLUSTER_STORMS))
MORE_SEEDS = range(30, 50)


class Seen(NamedTuple):
    story: str
    acknowledged: int
    committed_transactions: int
    committed_offsets: int
    member_commits: Counter[str]
    """By group."""
    syncs: bool


@cache
def run_once(seed: int, adjust: Callable[[ClusterProfile], ClusterProfile]) -> Seen:
    cluster = run_cluster_seed(seed, adjust=adjust, duration_ms=5000.0)
    commits: Counter[str] = Counter()
    for member in cluster.members:
        commits[member.group] += member.committed
    return Seen(
        cluster.world.story(),
        sum(producer.acknowledged for producer in cluster.producers),
        cluster.transactions.committed,
        len(cluster.offsets.groups),
        commits,
        cluster.profile.syncs,
    )


def storm_of(seed: int) -> Callable[[ClusterProfile], ClusterProfile]:
    return CLUSTER_STORMS[seed % len(CLUSTER_STORMS)]


@pytest.mark.parametrize("seed", SEEDS)
def test_seed(seed: int) -> None:
    run_once(seed, as_drawn)


@pytest.mark.parametrize("seed", STORM_SEEDS)
def test_seed_in_a_storm(seed: int) -> None:
    run_once(seed, storm_of(seed))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_seeds(first: int) -> None:
    for seed in range(first, first + 100):
        run_cluster_seed(seed)
        run_cluster_seed(seed, adjust=storm_of(seed))


def test_a_seed_replays_exactly() -> None:
    first, second = (run_cluster_seed(5, duration_ms=3000.0) for _ in range(2))
    assert first.world.story() == second.world.story()
    assert first.world.steps == second.world.steps


def test_the_seeds_see_what_they_are_for() -> None:
    """A simulator in which nothing happens proves nothing."""
    runs = [run_once(seed, as_drawn) for seed in SEEDS] + [run_once(seed, storm_of(seed)) for seed in STORM_SEEDS]

    def stories() -> Iterator[str]:
        """Of more seeds than the others need, as long as something has not been seen."""
        yield from (run.story for run in runs)
        yield from (run_once(seed, as_drawn).story for seed in MORE_SEEDS)

    for happening in (
        "crashes",
        "loses power",
        "loses its disk",
        "is stopped",
        "is asked to stop",
        "cannot reach",
        "hands over control",
        "term=4",
        "is silent and gets no more work",
        "in-sync set partition=t-0",
        "were cut",
        "metadata snapshot",
        "moves partition",
        "became a voter",
        "coordinator loaded",
        "refused with",
        "was elected; it and",
        "has a full disk",
        "has room on its disk again",
    ):
        assert any(happening in story for story in stories()), happening
    assert min(run.acknowledged for run in runs) > 0
    assert sum(run.acknowledged for run in runs) > 1000
    assert sum(run.committed_transactions for run in runs) > 50
    assert sum(run.committed_offsets for run in runs) > 200
    for group in ("classic", "consumer"):
        assert sum(run.member_commits[group] for run in runs) > 100, group
    assert {run.syncs for run in runs} == {True, False}

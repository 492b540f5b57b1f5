"""Brokers under every fault the simulator knows: five invariants hold, and once the faults end all replicas agree."""

from __future__ import annotations

import pytest
from tests.simulation.replication_run import run_replication_seed

SEEDS = range(1, 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_seed(seed: int) -> None:
    run_replication_seed(seed, duration_ms=4000.0)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_seeds(first: int) -> None:
    for seed in range(first, first + 100):
        run_replication_seed(seed)


def test_a_seed_replays_exactly() -> None:
    first, second = (run_replication_seed(5, duration_ms=3000.0) for _ in range(2))
    assert first.world.story() == second.world.story()
    assert first.world.steps == second.world.steps


def test_the_seeds_see_what_they_are_for() -> None:
    """A simulator in which nothing happens proves nothing."""
    runs = [run_replication_seed(seed, duration_ms=6000.0) for seed in range(20, 28)]
    stories = [run.world.story() for run in runs]
    for happening in ("crashes", "loses power", "loses its disk", "cut from", "is fenced", "epoch 3", "refused with"):
        assert any(happening in story for story in stories), happening
    assert all(sum(producer.acknowledged for producer in run.producers) > 20 for run in runs)
    assert {run.syncs for run in runs} == {True, False}


@pytest.mark.parametrize("seed", range(40, 44))
def test_what_is_synced_before_it_is_acknowledged_survives_the_loss_of_power_everywhere(seed: int) -> None:
    run_replication_seed(seed, syncs=True)

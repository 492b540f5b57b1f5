"""Quorums under every fault the simulator knows: five invariants hold, and once the faults end everyone agrees."""

from __future__ import annotations

import pytest
from tests.simulation.raft_run import run_seed

SEEDS = range(1, 61)
SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_seeds(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 200))
def test_many_seeds(first: int) -> None:
    for seed in range(first, first + 200):
        run_seed(seed)


def test_a_seed_replays_exactly() -> None:
    first, second = run_seed(11), run_seed(11)
    assert first.world.story() == second.world.story()
    assert first.world.steps == second.world.steps
    assert [node.digest for node in first.nodes.values()] == [node.digest for node in second.nodes.values()]


def test_the_seeds_see_what_they_are_for() -> None:
    """A simulator in which nothing happens proves nothing."""
    stories = [run_seed(seed).world.story() for seed in range(1, 25)]
    for happening in (
        "crashes",
        "cannot reach",
        "installs snapshot",
        "leader in term 5",
        "done: transfer",
        "add voter",
    ):
        assert any(happening in story for story in stories), happening

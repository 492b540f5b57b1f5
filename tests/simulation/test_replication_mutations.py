"""Each rule of replication, broken on purpose, is missed by a checker within a few seeds."""

from __future__ import annotations

import pytest
from tests.simulation.replication_broker import Mutations
from tests.simulation.replication_run import ReplicationSeedFailed, run_replication_seed
from tests.simulation.world import Violation

FIRST_SEED = 5
"""One with much loss and many failovers."""
SEEDS_MAX = 30


@pytest.mark.parametrize(
    "mutations",
    [
        Mutations(acknowledges_early=True),
        Mutations(skips_truncation=True),
        Mutations(counts_any_two=True),
        Mutations(shrinks_alone=True),
    ],
    ids=["acks=all answered early", "truncation skipped", "fenced replicas counted", "in-sync set shrunk alone"],
)
def test_a_broken_rule_is_noticed(mutations: Mutations) -> None:
    check_is_noticed(mutations)


def test_acknowledgements_without_a_sync_are_noticed() -> None:
    check_is_noticed(Mutations(skips_syncs=True), syncs=True)


def check_is_noticed(mutations: Mutations, *, syncs: bool | None = None) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_MAX):
        try:
            run_replication_seed(seed, mutations=mutations, syncs=syncs)
        except ReplicationSeedFailed as failure:
            if not isinstance(failure.__cause__, Violation):
                raise
            return
    pytest.fail(f"{mutations} went unnoticed in {SEEDS_MAX} seeds")

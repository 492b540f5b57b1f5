"""Each rule of the core, broken on purpose, is missed by a checker within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from tests.simulation import raft_mutations
from tests.simulation.raft_profiles import STORMS, Profile, crashes, many_changes, short_reigns, slow_disks
from tests.simulation.raft_run import SeedFailed, run_seed
from tests.simulation.world import Violation

SEEDS_MAX = 80
DURATION_MS = 3000.0


@pytest.mark.parametrize(
    ("mutation", "adjust"),
    [
        (raft_mutations.commits_old_terms_by_count, short_reigns),
        (raft_mutations.acknowledges_before_sync, crashes),
        (raft_mutations.leader_counts_unsynced, slow_disks),
        (raft_mutations.votes_without_comparing_logs, crashes),
        (raft_mutations.votes_twice_in_a_term, crashes),
        (raft_mutations.appends_without_comparing_terms, crashes),
        (raft_mutations.changes_members_at_any_time, many_changes),
        (raft_mutations.reads_without_asking, crashes),
    ],
)
def test_a_broken_rule_is_noticed(mutation: Callable[[], Any], adjust: Callable[[Profile], Profile]) -> None:
    assert seeds_until_noticed(mutation, adjust) <= SEEDS_MAX


def test_a_vote_that_is_not_synced_is_noticed() -> None:
    assert seeds_until_noticed(nullcontext, crashes, forgets_votes=True) <= SEEDS_MAX


@pytest.mark.parametrize("adjust", STORMS)
def test_the_rules_as_they_are_survive_the_same(adjust: Callable[[Profile], Profile]) -> None:
    for seed in range(1, 13):
        run_seed(seed, adjust=adjust, duration_ms=DURATION_MS)


def seeds_until_noticed(
    mutation: Callable[[], Any], adjust: Callable[[Profile], Profile], *, forgets_votes: bool = False
) -> int:
    for seed in range(1, SEEDS_MAX + 1):
        try:
            with mutation():
                run_seed(seed, adjust=adjust, duration_ms=DURATION_MS, forgets_votes=forgets_votes)
        except SeedFailed as failure:
            if isinstance(failure.__cause__, Violation):
                return seed
    return SEEDS_MAX + 1

"""Each rule by which control, replication and disks work together, broken on purpose, is missed within a few seeds by
the checker that is there for it, alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.checkers.committed_offsets import CommittedOffsetsStay
from tests.simulation.checkers.leader_completeness import LeaderCompleteness
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.state_machine_safety import StateMachineSafety
from tests.simulation.checkers.transactions_whole import TransactionsAreWhole
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.cluster import mutations
from tests.simulation.cluster.profile import (
    ClusterProfile,
    as_drawn,
    late_duplicates,
    lost_controllers,
    power_cuts,
)
from tests.simulation.cluster.run import run_cluster_seed
from tests.simulation.noticing import check_is_noticed

SEEDS_MAX = 40
DURATION_MS = 5000.0
PATIENCE_MS = 8000.0
"""What is broken need not come to rest."""


@pytest.mark.parametrize(
    ("mutation", "adjust", "checker", "first_seed"),
    [
        (mutations.acknowledges_early, lost_controllers, OneValuePerOffset, 1),
        (mutations.shrinks_alone, as_drawn, WatermarkNeverMovesBack, 1),
        (mutations.goes_on_leading, lost_controllers, OneValuePerOffset, 2),
        (mutations.elects_anyone, as_drawn, WatermarkNeverMovesBack, 1),
        (mutations.skips_truncation, lost_controllers, OneValuePerOffset, 1),
        (mutations.skips_syncs, power_cuts, LeaderCompleteness, 1),
        (mutations.decides_on_an_old_image, late_duplicates, OneValuePerOffset, 3),
        (mutations.decides_before_it_knows, lost_controllers, StateMachineSafety, 1),
        (mutations.forgets_changes_under_way, lost_controllers, WatermarkNeverMovesBack, 2),
        (mutations.obeys_old_leaders, late_duplicates, OneValuePerOffset, 5),
        (mutations.coordinators_do_not_replay, late_duplicates, CommittedOffsetsStay, 1),
        (mutations.coordinators_answer_early, late_duplicates, CommittedOffsetsStay, 1),
        (mutations.coordinators_answer_early, lost_controllers, TransactionsAreWhole, 8),
    ],
)
def test_a_broken_rule_is_noticed(
    mutation: Callable[[], Any], adjust: Callable[[ClusterProfile], ClusterProfile], checker: type, first_seed: int
) -> None:
    """`first_seed` was seen to do it, which saves time; once the code has changed, one of the next may have to."""

    def run(seed: int) -> None:
        run_cluster_seed(
            seed,
            adjust=adjust,
            duration_ms=DURATION_MS,
            patience_ms=PATIENCE_MS,
            mutation=mutation,
            checkers=[checker],
        )

    check_is_noticed(checker, run, range(first_seed, first_seed + SEEDS_MAX))

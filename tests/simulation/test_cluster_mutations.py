"""Each rule by which control, replication and disks work together, broken on purpose, is missed within a few seeds by
the checker that is there for it, alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation import raft_mutations
from tests.simulation.checkers.acknowledged_records import AcknowledgedRecordsStay
from tests.simulation.checkers.committed_offsets import CommittedOffsetsStay
from tests.simulation.checkers.election_safety import ElectionSafety
from tests.simulation.checkers.full_disks import FullDisksRecover
from tests.simulation.checkers.group_offsets import GroupOffsetsNeverMoveBack
from tests.simulation.checkers.leader_completeness import LeaderCompleteness
from tests.simulation.checkers.one_owner import OneOwnerPerGeneration
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.state_machine_safety import StateMachineSafety
from tests.simulation.checkers.transactions_whole import TransactionsAreWhole
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.cluster import mutations
from tests.simulation.cluster.profile import (
    FAULTS,
    ClusterProfile,
    as_drawn,
    full_disks,
    late_duplicates,
    lost_controllers,
    lost_votes,
    older_transactions,
    power_cuts,
    restless_groups,
    short_reigns,
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
        (mutations.skips_syncs_of_votes, lost_votes, ElectionSafety, 3),
        (raft_mutations.commits_old_terms_by_count, short_reigns, LeaderCompleteness, 5),
        (mutations.acknowledges_early, lost_controllers, OneValuePerOffset, 1),
        (mutations.shrinks_alone, as_drawn, WatermarkNeverMovesBack, 1),
        (mutations.goes_on_leading, lost_controllers, OneValuePerOffset, 2),
        (mutations.elects_anyone, as_drawn, WatermarkNeverMovesBack, 16),
        (mutations.skips_truncation, lost_controllers, OneValuePerOffset, 1),
        (mutations.skips_syncs, power_cuts, LeaderCompleteness, 1),
        (mutations.takes_used_sequences_for_duplicates, older_transactions, TransactionsAreWhole, 1),
        (mutations.decides_on_an_old_image, late_duplicates, OneValuePerOffset, 6),
        (mutations.decides_before_it_knows, lost_controllers, StateMachineSafety, 1),
        (mutations.forgets_changes_under_way, lost_controllers, WatermarkNeverMovesBack, 13),
        (mutations.obeys_old_leaders, late_duplicates, OneValuePerOffset, 9),
        (mutations.coordinators_do_not_replay, late_duplicates, CommittedOffsetsStay, 1),
        (mutations.coordinators_answer_early, late_duplicates, CommittedOffsetsStay, 1),
        (mutations.coordinators_answer_early, lost_controllers, TransactionsAreWhole, 86),
        (mutations.coordinators_do_not_replay, restless_groups, OneOwnerPerGeneration, 4),
        (mutations.takes_commits_of_any_generation, restless_groups, GroupOffsetsNeverMoveBack, 29),
        (mutations.assigns_what_others_still_own, restless_groups, GroupOffsetsNeverMoveBack, 2),
        (mutations.stays_away_after_a_full_disk, full_disks, FullDisksRecover, 2),
        (mutations.acknowledges_early, full_disks, AcknowledgedRecordsStay, 7),
    ],
)
def test_a_broken_rule_is_noticed(
    mutation: Callable[[], Any], adjust: Callable[[ClusterProfile], ClusterProfile], checker: type, first_seed: int
) -> None:
    """`first_seed` was seen to do it, which saves time; once the code has changed, one of the next may have to.

    Groups have members, and disks run full, only in the storm that is about them: elsewhere it would only take time.
    """

    def directed(drawn: ClusterProfile) -> ClusterProfile:
        faults = tuple(fault for fault in drawn.faults if fault in FAULTS)
        return adjust(replace(drawn, has_members=False, faults=faults))

    def run(seed: int) -> None:
        run_cluster_seed(
            seed,
            adjust=directed,
            duration_ms=DURATION_MS,
            patience_ms=PATIENCE_MS,
            mutation=mutation,
            checkers=[checker],
        )

    check_is_noticed(checker, run, range(first_seed, first_seed + SEEDS_MAX))

"""Each rule of replication, broken on purpose, is missed within a few seeds by the checker that is there for it,
alone."""

from __future__ import annotations

import pytest
from tests.simulation.checkers.acknowledged_records import AcknowledgedRecordsStay
from tests.simulation.checkers.epochs_monotonic import EpochsGrow
from tests.simulation.checkers.no_duplicates import NoRecordTwice
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.noticing import check_is_noticed
from tests.simulation.replication_broker import Mutations
from tests.simulation.replication_run import run_replication_seed

FIRST_SEED = 5
"""One with much loss and many failovers."""
SEEDS_MAX = 30


@pytest.mark.parametrize(
    ("mutations", "checker"),
    [
        (Mutations(acknowledges_early=True), OneValuePerOffset),
        (Mutations(skips_truncation=True), OneValuePerOffset),
        (Mutations(counts_any_two=True), WatermarkNeverMovesBack),
        (Mutations(shrinks_alone=True), OneValuePerOffset),
        (Mutations(forgets_producers=True), NoRecordTwice),
        (Mutations(tells_too_soon=True), WatermarkNeverMovesBack),
        (Mutations(writes_old_epochs=True), EpochsGrow),
    ],
    ids=[
        "acks=all answered early",
        "truncation skipped",
        "fenced replicas counted",
        "in-sync set shrunk alone",
        "producers forgotten",
        "high watermark told too soon",
        "old epochs written",
    ],
)
def test_a_broken_rule_is_noticed(mutations: Mutations, checker: type) -> None:
    check_is_noticed_in(mutations, checker)


def test_acknowledgements_without_a_sync_are_noticed() -> None:
    check_is_noticed_in(Mutations(skips_syncs=True), AcknowledgedRecordsStay, syncs=True)


def check_is_noticed_in(mutations: Mutations, checker: type, *, syncs: bool | None = None) -> None:
    def run(seed: int) -> None:
        run_replication_seed(seed, mutations=mutations, syncs=syncs, checkers=[checker])

    check_is_noticed(checker, run, range(FIRST_SEED, FIRST_SEED + SEEDS_MAX))

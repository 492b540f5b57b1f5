"""Runs one seed of a whole cluster. Logs are real files, so the seed runs in a directory of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.simulation.checkers.acknowledged_records import AcknowledgedRecordsStay
from tests.simulation.checkers.committed_offsets import CommittedOffsetsStay
from tests.simulation.checkers.election_safety import ElectionSafety
from tests.simulation.checkers.epochs_monotonic import EpochsGrow
from tests.simulation.checkers.full_disks import FullDisksRecover
from tests.simulation.checkers.group_offsets import GroupOffsetsNeverMoveBack
from tests.simulation.checkers.leader_completeness import LeaderCompleteness
from tests.simulation.checkers.log_matching import LogMatching
from tests.simulation.checkers.no_duplicates import NoRecordTwice
from tests.simulation.checkers.one_owner import OneOwnerPerGeneration
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.state_machine_safety import StateMachineSafety
from tests.simulation.checkers.transactions_whole import TransactionsAreWhole
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.cluster.environment import simulated_machine
from tests.simulation.cluster.hooks import quorums_watched
from tests.simulation.cluster.loop import VirtualLoop
from tests.simulation.cluster.profile import ClusterProfile, as_drawn
from tests.simulation.event_loop import running_loop
from tests.simulation.repeating import cluster_word, how_to_repeat
from tests.simulation.world import Checker, World

DURATION_MS = 10_000.0
PATIENCE_MS = 40_000.0
FAST_DIRECTORY = Path("/dev/shm")


class ClusterSeedFailed(AssertionError):
    """A run broke an invariant; the text holds the seed, the reason and the last things that happened."""


CHECKERS: tuple[Callable[[], Checker], ...] = (
    ElectionSafety,
    LogMatching,
    LeaderCompleteness,
    StateMachineSafety,
    AcknowledgedRecordsStay,
    NoRecordTwice,
    OneValuePerOffset,
    WatermarkNeverMovesBack,
    EpochsGrow,
    CommittedOffsetsStay,
    TransactionsAreWhole,
    OneOwnerPerGeneration,
    GroupOffsetsNeverMoveBack,
    FullDisksRecover,
)


def run_cluster_seed(
    seed: int,
    *,
    duration_ms: float = DURATION_MS,
    patience_ms: float = PATIENCE_MS,
    adjust: Callable[[ClusterProfile], ClusterProfile] = as_drawn,
    mutation: Callable[[], Any] | None = None,
    checkers: Sequence[Callable[[], Checker]] = CHECKERS,
) -> SimulatedCluster:
    """Raises ClusterSeedFailed. `adjust` changes what the seed drew; `mutation` breaks a rule on purpose."""
    world = World(seed)
    world.checkers = [checker() for checker in checkers]
    place = FAST_DIRECTORY if FAST_DIRECTORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        cluster = SimulatedCluster(world, Path(directory), adjust(ClusterProfile.draw(world)))
        loop = VirtualLoop(world)
        try:
            with (
                running_loop(loop),
                simulated_machine(world, directory),
                nullcontext() if mutation is None else mutation(),
                quorums_watched(),
            ):
                try:
                    cluster.run(duration_ms, patience_ms)
                finally:
                    cluster.bury()
                    loop.abandon()
        except Exception as error:
            word = cluster_word(seed, adjust, duration_ms)
            raise ClusterSeedFailed(
                f"cluster seed {seed} fails at {world.now_ms:.1f} ms: {type(error).__name__}: {error}\n"
                f"{how_to_repeat(word, is_broken=mutation is not None)}\n{world.story()}"
            ) from error
    return cluster

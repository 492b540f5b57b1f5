"""Runs one seed of replication. Logs are real files, so the seed runs in a directory of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.simulation.checkers.acknowledged_records import AcknowledgedRecordsStay
from tests.simulation.checkers.epochs_monotonic import EpochsGrow
from tests.simulation.checkers.no_duplicates import NoRecordTwice
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.event_loop import SimulatedLoop, running_loop
from tests.simulation.repeating import how_to_repeat, replication_word
from tests.simulation.replication_broker import Mutations
from tests.simulation.replication_cluster import ReplicationCluster
from tests.simulation.world import Checker, World

DURATION_MS = 8000.0
FAST_DIRECTORY = Path("/dev/shm")


class ReplicationSeedFailed(AssertionError):
    """A run broke an invariant; the text holds the seed, the reason and the last things that happened."""


CHECKERS: tuple[Callable[[], Checker], ...] = (
    AcknowledgedRecordsStay,
    NoRecordTwice,
    OneValuePerOffset,
    WatermarkNeverMovesBack,
    EpochsGrow,
)


def run_replication_seed(
    seed: int,
    *,
    duration_ms: float = DURATION_MS,
    syncs: bool | None = None,
    mutations: Mutations | None = None,
    checkers: Sequence[Callable[[], Checker]] = CHECKERS,
) -> ReplicationCluster:
    """Raises ReplicationSeedFailed. `syncs`: whether the topic has `tidelog.flush=ack`; None leaves it to the seed."""
    world = World(seed)
    world.checkers = [checker() for checker in checkers]

    def run(path: Path) -> ReplicationCluster:
        with running_loop(SimulatedLoop(world)):
            cluster = ReplicationCluster(world, path, mutations or Mutations(), syncs)
            try:
                cluster.run(duration_ms)
            finally:
                for broker in cluster.brokers.values():
                    if broker.is_up:
                        broker.crash(loses_unsynced=False)
            return cluster

    place = FAST_DIRECTORY if FAST_DIRECTORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        try:
            return run(Path(directory))
        except Exception as error:
            word = replication_word(seed, syncs, duration_ms)
            raise ReplicationSeedFailed(
                f"replication seed {seed} fails at {world.now_ms:.1f} ms: {type(error).__name__}: {error}\n"
                f"{how_to_repeat(word, is_broken=mutations is not None)}\n{world.story()}"
            ) from error

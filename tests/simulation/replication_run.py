"""Runs one seed of replication. Logs are real files, so the seed runs in a directory of its own."""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.checkers.acknowledged_records import AcknowledgedRecordsStay
from tests.simulation.checkers.epochs_monotonic import EpochsGrow
from tests.simulation.checkers.no_duplicates import NoRecordTwice
from tests.simulation.checkers.one_value_per_offset import OneValuePerOffset
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.replication_broker import Mutations
from tests.simulation.replication_cluster import ReplicationCluster
from tests.simulation.world import World

DURATION_MS = 8000.0
FAST_DIRECTORY = Path("/dev/shm")


class ReplicationSeedFailed(AssertionError):
    """A run broke an invariant; the text holds the seed, the reason and the last things that happened."""


def run_replication_seed(
    seed: int, *, duration_ms: float = DURATION_MS, mutations: Mutations | None = None
) -> ReplicationCluster:
    """Raises ReplicationSeedFailed."""
    world = World(seed)
    world.checkers = [
        AcknowledgedRecordsStay(),
        NoRecordTwice(),
        OneValuePerOffset(),
        WatermarkNeverMovesBack(),
        EpochsGrow(),
    ]

    async def run(path: Path) -> ReplicationCluster:
        # The partition table belongs to an event loop; time and order are the world's all the same.
        with ThreadPoolExecutor(1) as workers:
            cluster = ReplicationCluster(world, path, workers, mutations or Mutations())
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
            return asyncio.run(run(Path(directory)))
        except Exception as error:
            raise ReplicationSeedFailed(
                f"replication seed {seed} fails at {world.now_ms:.1f} ms: {type(error).__name__}: {error}\n"
                f"repeat it with: make sim SEEDS={seed}\n{world.story()}"
            ) from error

"""`python -m tests.simulation SEEDS`: many seeds of the quorum, of replication and of whole clusters. SEEDS is a
number, a range `1-500`, one run as a failure names it (`repeating.py`), or several with commas.

Each seed of the quorum and of the cluster is run as it was drawn and again in one of the storms.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tests.simulation.cluster.profile import CLUSTER_STORMS
from tests.simulation.cluster.run import ClusterSeedFailed, run_cluster_seed
from tests.simulation.raft_profiles import STORMS
from tests.simulation.raft_run import SeedFailed, run_seed
from tests.simulation.repeating import CLUSTER_PROFILES, PROFILES, SYNCS
from tests.simulation.replication_run import ReplicationSeedFailed, run_replication_seed

Run = Callable[[], object]


def parse_runs(text: str) -> list[Run]:
    runs: list[Run] = []
    for part in text.split(","):
        kind, *fields = part.split(":")
        if fields:
            runs.append(_parse_word(kind, *fields))
            continue
        first, _, last = part.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            runs += _all_kinds(seed)
    return runs


def _all_kinds(seed: int) -> list[Run]:
    return [
        lambda: run_seed(seed),
        lambda: run_seed(seed, adjust=STORMS[seed % len(STORMS)]),
        lambda: run_replication_seed(seed),
        lambda: run_cluster_seed(seed),
        lambda: run_cluster_seed(seed, adjust=CLUSTER_STORMS[seed % len(CLUSTER_STORMS)]),
    ]


def _parse_word(kind: str, seed: str, variant: str, duration_ms: str) -> Run:
    if kind == "raft":
        return lambda: run_seed(int(seed), adjust=PROFILES[variant], duration_ms=float(duration_ms))
    if kind == "cluster":
        return lambda: run_cluster_seed(int(seed), adjust=CLUSTER_PROFILES[variant], duration_ms=float(duration_ms))
    assert kind == "replication", f"no such simulation: {kind}"
    return lambda: run_replication_seed(int(seed), syncs=SYNCS[variant], duration_ms=float(duration_ms))


def main(arguments: list[str]) -> int:
    failed = 0
    started_s = time.monotonic()
    runs = parse_runs(arguments[0] if arguments else "1-100")
    for run in runs:
        try:
            run()
        except (SeedFailed, ReplicationSeedFailed, ClusterSeedFailed) as failure:
            failed += 1
            print(failure, flush=True)
    print(f"{len(runs)} runs in {time.monotonic() - started_s:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

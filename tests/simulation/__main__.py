"""`python -m tests.simulation SEEDS`: many seeds of the quorum and of replication. SEEDS is a number, a range `1-500`,
or several.

Each seed of the quorum is run as it was drawn and again in one of the storms.
"""

from __future__ import annotations

import sys
import time

from tests.simulation.raft_profiles import STORMS
from tests.simulation.raft_run import SeedFailed, run_seed
from tests.simulation.replication_run import ReplicationSeedFailed, run_replication_seed


def parse_seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main(arguments: list[str]) -> int:
    failed: list[int] = []
    started_s = time.monotonic()
    seeds = parse_seeds(arguments[0] if arguments else "1-100")
    for seed in seeds:
        try:
            run_seed(seed)
            run_seed(seed, adjust=STORMS[seed % len(STORMS)])
            run_replication_seed(seed)
        except (SeedFailed, ReplicationSeedFailed) as failure:
            failed.append(seed)
            print(failure, flush=True)
    print(f"{len(seeds)} seeds in {time.monotonic() - started_s:.0f} s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""One run of the simulator as a word, so that the command a failure prints runs exactly that again.

`raft:SEED:STORM:MILLISECONDS`, `replication:SEED:SYNCS:MILLISECONDS` and `cluster:SEED:STORM:MILLISECONDS`; a seed
alone stands for all kinds of runs.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.cluster import profile as cluster_profile
from tests.simulation.cluster.profile import CLUSTER_STORMS, ClusterProfile
from tests.simulation.raft_profiles import STORMS, Profile, as_drawn

SYNCS: dict[str, bool | None] = {"drawn": None, "synced": True, "unsynced": False}
PROFILES = {adjust.__name__: adjust for adjust in (as_drawn, *STORMS)}
CLUSTER_PROFILES = {adjust.__name__: adjust for adjust in (cluster_profile.as_drawn, *CLUSTER_STORMS)}


def raft_word(seed: int, adjust: Callable[[Profile], Profile], duration_ms: float) -> str:
    return f"raft:{seed}:{adjust.__name__}:{duration_ms:g}"


def replication_word(seed: int, syncs: bool | None, duration_ms: float) -> str:
    name = next(name for name, value in SYNCS.items() if value is syncs)
    return f"replication:{seed}:{name}:{duration_ms:g}"


def cluster_word(seed: int, adjust: Callable[[ClusterProfile], ClusterProfile], duration_ms: float) -> str:
    return f"cluster:{seed}:{adjust.__name__}:{duration_ms:g}"


def how_to_repeat(word: str, *, is_broken: bool) -> str:
    """`is_broken`: a rule was broken on purpose, which only the test that does so can do again."""
    return f"a rule is broken on purpose in {word}" if is_broken else f"repeat it with: make sim SEEDS={word}"

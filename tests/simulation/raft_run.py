"""Runs one seed of the quorum: everything it does follows from the number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.checkers.election_safety import ElectionSafety
from tests.simulation.checkers.leader_completeness import LeaderCompleteness
from tests.simulation.checkers.log_matching import LogMatching
from tests.simulation.checkers.read_index import ReadsAreCurrent
from tests.simulation.checkers.state_machine_safety import StateMachineSafety
from tests.simulation.raft_cluster import RaftCluster
from tests.simulation.raft_profiles import Profile, as_drawn
from tests.simulation.repeating import how_to_repeat, raft_word
from tests.simulation.world import Checker, World

DURATION_MS = 6000.0


class SeedFailed(AssertionError):
    """A run broke an invariant; the text holds the seed, the reason and the last things that happened."""


CHECKERS: tuple[Callable[[], Checker], ...] = (
    ElectionSafety,
    LogMatching,
    LeaderCompleteness,
    StateMachineSafety,
    ReadsAreCurrent,
)


def run_seed(
    seed: int,
    *,
    duration_ms: float = DURATION_MS,
    adjust: Callable[[Profile], Profile] = as_drawn,
    forgets_votes: bool = False,
    checkers: Sequence[Callable[[], Checker]] = CHECKERS,
) -> RaftCluster:
    """Raises SeedFailed. `adjust` changes what the seed drew; `forgets_votes` breaks the disks on purpose."""
    world = World(seed)
    cluster = RaftCluster(world, [checker() for checker in checkers], adjust=adjust, forgets_votes=forgets_votes)
    try:
        cluster.run(duration_ms)
    except Exception as error:
        word = raft_word(seed, adjust, duration_ms)
        raise SeedFailed(
            f"seed {seed} fails at {world.now_ms:.1f} ms: {type(error).__name__}: {error}\n"
            f"{how_to_repeat(word, is_broken=forgets_votes)}\n{world.story()}"
        ) from error
    return cluster

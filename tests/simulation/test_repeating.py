"""The command that a failed run prints runs exactly the same again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.simulation.__main__ import main, parse_runs
from tests.simulation.checkers.read_index import ReadsAreCurrent
from tests.simulation.checkers.watermark_monotonic import WatermarkNeverMovesBack
from tests.simulation.cluster.profile import lost_controllers
from tests.simulation.cluster.run import ClusterSeedFailed, run_cluster_seed
from tests.simulation.raft_profiles import crashes
from tests.simulation.raft_run import SeedFailed, run_seed
from tests.simulation.replication_run import ReplicationSeedFailed, run_replication_seed
from tests.simulation.world import Violation


@pytest.mark.parametrize(
    ("checker", "run"),
    [
        (ReadsAreCurrent, lambda: run_seed(3, adjust=crashes, duration_ms=1500.0)),
        (WatermarkNeverMovesBack, lambda: run_replication_seed(5, syncs=True, duration_ms=1500.0)),
        (WatermarkNeverMovesBack, lambda: run_cluster_seed(3, adjust=lost_controllers, duration_ms=1500.0)),
    ],
    ids=["quorum in a storm", "replication with syncs", "cluster in a storm"],
)
def test_a_failure_is_repeated_exactly(
    monkeypatch: pytest.MonkeyPatch, checker: type, run: Callable[[], object]
) -> None:
    seen = 0

    def observe(self: object, observation: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 60:
            raise Violation("made up")

    monkeypatch.setattr(checker, "observe", observe)
    with pytest.raises((SeedFailed, ReplicationSeedFailed, ClusterSeedFailed)) as failure:
        run()
    told = str(failure.value)
    [word] = re.findall(r"repeat it with: make sim SEEDS=(\S+)\n", told)
    [again] = parse_runs(word)
    seen = 0
    with pytest.raises((SeedFailed, ReplicationSeedFailed, ClusterSeedFailed)) as repeated:
        again()
    assert str(repeated.value) == told


def test_the_command_says_whether_all_went_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["raft:3:crashes:500,replication:5:unsynced:500,cluster:2:power_cuts:500"]) == 0
    assert "3 runs" in capsys.readouterr().out
    assert len(parse_runs("1-4,9")) == 25

"""`tidelog cluster upgrade` through a rolling upgrade of real nodes from 0.1.0, which does not know the feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.servers.mixed_cluster import MixedCluster, unpack_source_before
from tests.waiting import wait_until

from tidelog.testing.broker import Broker

START_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def source_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_source_before(tmp_path_factory.mktemp("before"))


class Nodes(MixedCluster):
    def command(self, node_id: int) -> Command:
        """Asks this node."""
        return Command(self.addresses[node_id - 1])

    def until_alive(self, node_id: int) -> None:

        def states() -> list[str]:
            nodes = self.command(node_id)("cluster", "status", "--json").json["nodes"]
            return [node["state"] for node in nodes]

        wait_until(lambda: states() == ["alive"] * 3, "three nodes alive", interval_s=0.1)


@pytest.fixture
def nodes(tmp_path: Path, source_before: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, source_before) as running:
        yield running


def test_a_rolling_upgrade_ends_with_the_new_level(nodes: Nodes) -> None:
    for node_id in (1, 2, 3):
        nodes.start(node_id, before=True)
    nodes.until_alive(1)
    nodes.command(1)("topics", "create", "kept", "--partitions", "3", "--replication-factor", "3")
    refused = nodes.command(1)("cluster", "upgrade", fails=True)
    assert "this node does not know tidelog.version: upgrade it" in refused.err

    for node_id in (3, 2):
        nodes.stop(node_id)
        nodes.start(node_id, before=False)
        nodes.until_alive(node_id)
    nodes.command(1)("topics", "create", "made-by-both", "--replication-factor", "3")
    nodes.stop(1)
    for arguments in (("--dry-run",), ()):
        refused = nodes.command(3)("cluster", "upgrade", *arguments, fails=True)
        assert "cannot raise tidelog.version to 2" in refused.err
        assert "Broker 1 supports versions 0-0" in refused.err
    nodes.start(1, before=False)
    nodes.until_alive(1)

    command = nodes.command(2)
    assert "can be raised from 0 to 2" in command("cluster", "upgrade", "--dry-run").out
    assert "is raised from 0 to 2" in command("cluster", "upgrade").out
    again = command("cluster", "upgrade", "--json").json
    assert again == {"feature": "tidelog.version", "before": 2, "after": 2, "dry_run": False}
    assert set(nodes.command(1)("topics", "list").out.split()) >= {"kept", "made-by-both"}

    nodes.stop(3)
    assert "the cluster uses features this version does not know; upgrade it" in nodes.refused(3, before=True)
    nodes.start(3, before=False)
    nodes.until_alive(3)


def test_a_new_cluster_is_at_the_newest_level(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        said = Command(broker.bootstrap_servers)("cluster", "upgrade").out
    assert said == "tidelog.version is 2, the highest level this node supports\n"

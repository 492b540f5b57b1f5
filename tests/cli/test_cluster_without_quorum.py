"""`tidelog cluster status` when most voters are away: it says so, and calls no node alive that may be dead."""

from __future__ import annotations

from tests.cli.command import Command

from tidelog.testing import Cluster


def test_status_without_a_quorum(tidelog: Command) -> None:
    with Cluster() as cluster:
        left, *others = cluster.nodes
        for node in others:
            node.kill()
        done = tidelog("cluster", "status", "-b", left.bootstrap_servers)
        document = tidelog("cluster", "status", "-b", left.bootstrap_servers, "--json").json
    assert done.code == 0
    assert done.out.startswith("cluster ")
    assert "controller        none" in done.out
    assert "the quorum has no leader: start more of its voters" in done.err
    assert {node["state"] for node in document["nodes"]} == {"unknown"}

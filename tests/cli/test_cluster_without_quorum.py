"""`tidelog cluster status` when most voters are away: it says so, and calls no node alive that may be dead."""

from __future__ import annotations

import time

from tests.cli.command import Command

from tidelog.testing import Cluster


def test_status_without_a_quorum(tidelog: Command) -> None:
    with Cluster() as cluster:
        # A leader that is left alone still calls itself the controller until its check of the quorum fails.
        controller = cluster.controller
        left = next(node for node in cluster.nodes if node is not controller)
        for node in cluster.nodes:
            if node is not left:
                node.kill()
        # This one waits until the node knows that its leader is gone.
        tidelog("cluster", "status", "-b", left.bootstrap_servers)
        began_s = time.monotonic()
        done = tidelog("cluster", "status", "-b", left.bootstrap_servers)
        took_s = time.monotonic() - began_s
        document = tidelog("cluster", "status", "-b", left.bootstrap_servers, "--json").json
        refused = tidelog("topics", "create", "t", "-b", left.bootstrap_servers, fails=True).err
    assert "the cluster has no controller; `tidelog cluster status` shows" in refused
    assert done.code == 0
    assert took_s < 6, "a controller is waited for no longer than an election takes"
    assert done.out.startswith("cluster ")
    assert "controller        none" in done.out
    assert "the quorum has no leader: start more of its voters" in done.err
    assert {node["state"] for node in document["nodes"]} == {"unknown"}

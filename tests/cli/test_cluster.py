"""`tidelog cluster` and `topics reassign` against four real nodes, and local clusters that the command runs itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.cli.command import Command
from tests.waiting import wait_until

from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=4) as running:
        yield running


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    """Any node will do."""
    return Command(cluster.brokers[-1].bootstrap_servers)


def fill(cluster: EmbeddedCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(300):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0


def replicas(cluster: EmbeddedCluster, topic: str) -> list[tuple[int, ...]]:
    return [state.replicas for state in cluster.controller.node.metadata.topics[topic].partitions.values()]


def holders(cluster: EmbeddedCluster) -> set[int]:
    """The nodes with a replica of anything."""
    topics = cluster.controller.node.metadata.topics
    return {node_id for topic in topics for nodes in replicas(cluster, topic) for node_id in nodes}


def node_states(command: Command) -> set[tuple[int, str]]:
    return {(node["node_id"], node["state"]) for node in command("cluster", "status", "--json").json["nodes"]}


def test_status_tells_of_all_nodes_from_any_of_them(cluster: EmbeddedCluster, command: Command) -> None:
    cluster.create_topic("shown", 4)
    state: dict[str, Any] = {}

    def is_told() -> bool:
        state.update(command("cluster", "status", "--json").json)
        alive = [node["node_id"] for node in state["nodes"] if node["state"] == "alive" and node["statistics"]]
        return alive == [1, 2, 3, 4]

    wait_until(is_told, "statistics of every node")
    assert len(state["nodes"]) == 4
    assert state["controller"] == state["quorum"]["leader"]
    assert sum(node["leaders"] for node in state["nodes"]) == state["partitions"]
    assert state["without_leader"] == []
    numbers = state["nodes"][0]["statistics"]
    assert numbers["memory_bytes"] > 0
    assert numbers["uptime_seconds"] >= 0
    shown = command("cluster", "status").out
    assert state["cluster_id"] in shown
    assert len(re.findall(r"127\.0\.0\.1:\d+", shown)) == 4
    assert max(map(len, shown.splitlines())) <= 80


def test_a_topic_moves_where_it_is_told(cluster: EmbeddedCluster, command: Command) -> None:
    cluster.create_topic("moved", 2)
    fill(cluster, "moved")
    command("topics", "reassign", "moved", "--replicas", "4,2")
    assert replicas(cluster, "moved") == [(4, 2), (4, 2)]
    assert "nothing is being reassigned" in command("topics", "reassign").err
    assert "is no replica" not in command("topics", "describe", "moved").out
    for arguments, words in (
        (("moved", "--replicas", "9"), "no such broker is registered"),
        (("moved", "--replicas", "x"), "node ids with commas"),
        (("moved",), "one of --replicas and --cancel"),
        (("missing", "--replicas", "1"), "missing"),
    ):
        assert words in command("topics", "reassign", *arguments, fails=True).err


def test_a_node_joins_is_filled_drained_and_removed(cluster: EmbeddedCluster, command: Command) -> None:
    cluster.create_topic("spread", 8)
    fill(cluster, "spread")
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[2].bootstrap_servers}
    with Broker(joining) as guest:
        number = guest.node.config.node_id
        wait_until(lambda: (number, "alive") in node_states(command), "the guest alive for the node that is asked")
        command("cluster", "rebalance")
        assert number in holders(cluster), "it took its share of some topic"
        assert "holds" in command("cluster", "remove", str(number), fails=True).err
        assert command("cluster", "drain", str(number), "--dry-run", "--json").json["moves"]
        command("cluster", "drain", str(number))
        assert number not in holders(cluster)
        wait_until(lambda: (number, "alive, drained") in node_states(command), "the guest drained")
        cluster.create_topic("later", 8)
        assert number not in holders(cluster)
        assert "there is no node 99" in command("cluster", "undrain", "99", fails=True).err
        assert "there is no node 99" in command("cluster", "remove", "99", fails=True).err
        refused = command.answering(b"n\n", "cluster", "remove", str(number))
        assert f"node {number} is still running, and ends when it is removed; remove it? [y/N]" in refused.err
        assert refused.code == 1
        assert (number, "alive, drained") in node_states(command)
        # Nobody can be asked here: a script means it, and is told.
        assert "give --yes" in command("cluster", "remove", str(number), fails=True).err
        assert "it was still running" in command("cluster", "remove", str(number), "--yes").out
        wait_until(lambda: guest.node.given_up is not None, "the removed node noticing")
        assert guest.node.given_up == f"node {number} was removed from the cluster"
        wait_until(lambda: all(number not in b.node.metadata.brokers for b in cluster.brokers), "the node forgotten")


def test_a_node_that_has_ended_is_removed_without_a_question(cluster: EmbeddedCluster, command: Command) -> None:
    with Broker({"controller.quorum.bootstrap.servers": cluster.brokers[0].bootstrap_servers}) as guest:
        number = guest.node.config.node_id
    wait_until(lambda: (number, "fenced") in node_states(command), "the guest known to have ended")
    done = command.answering(b"n\n", "cluster", "remove", str(number))
    assert done == (0, f"node {number} is removed\n", "")


# -- clusters the command runs -----------------------------------------------------------------------------------------


def _is_refused(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read_ready(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


@pytest.mark.parametrize(
    "arguments",
    [("cluster", "start", "--nodes", "3"), ("serve", "--nodes", "2", "--log-format", "json")],
    ids=["cluster-start", "serve-nodes"],
)
def test_several_nodes_from_one_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = Command("").start(*arguments, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    try:
        line = read_ready(process)
        if "json" in arguments:
            told = json.loads(line)
            assert (told["event"], told["data"]) == ("ready", str(tmp_path / "data"))
            bootstrap, nodes = told["address"], told["nodes"]
        else:
            found = re.search(r"cluster of (\d) nodes? ready on ([0-9.:,]+), data in", line)
            assert found is not None, (line, process.stderr)
            bootstrap, nodes = found[2], int(found[1])
        assert len(bootstrap.split(",")) == nodes
        command = Command(bootstrap.split(",")[-1])
        command("topics", "create", "t", "-p", "4")
        command("produce", "t", stdin=b"a\nb\n")
        wait_until(lambda: {state for _, state in node_states(command)} == {"alive"}, "all nodes alive")
        # A node that dies is started again.
        before = children(process.pid)
        os.kill(before[-1], signal.SIGKILL)
        wait_until(
            lambda: len(children(process.pid)) == len(before) and before[-1] not in children(process.pid),
            "another process in its place",
        )
        wait_until(lambda: not _is_refused(bootstrap.split(",")[-1]), "the node back")
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    assert sorted(path.name for path in (tmp_path / "data").glob("node-*")) == [
        f"node-{number}" for number in range(1, nodes + 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cluster", "start", "--nodes", "0"), "--nodes must be between 1 and 99"),
        (("serve", "--nodes", "3", "--join", "127.0.0.1:1"), "cannot be used together"),
        (("serve", "-o", "controller.quorum.voters=1@nowhere"), "controller.quorum.voters"),
        (("serve", "--listen", "127.0.0.1:19", "--join", "127.0.0.1:19"), "19"),
    ],
)
def test_starts_that_make_no_sense(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in Command("")(*arguments, "--data", str(tmp_path / "data"), fails=True).err

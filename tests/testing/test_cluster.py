"""`tidelog.testing.Cluster` as a user has it: faults of every kind, seen by real clients."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from tests.testing.producing import DEADLINE_S, Writer, read_all
from tests.waiting import wait_until

from tidelog import BrokerError, NodeStartError
from tidelog.testing import Cluster


def check(cluster: Cluster, topic: str, writer: Writer, partition: int = 0) -> None:
    """What was acknowledged is there once, in order, and nothing that was acknowledged is missing."""
    assert not writer.failed
    assert read_all(cluster.bootstrap, topic, partition) == writer.acknowledged


def wait_until_not_in_sync(cluster: Cluster, topic: str, partition: int, node_id: int) -> None:
    """After `replica.lag.time.max.ms` a follower leaves the set; until then it is still in it."""

    def is_not_in_sync() -> bool:
        try:
            cluster.wait_until_in_sync(topic, timeout_s=0)
        except TimeoutError as error:
            return f"{topic}-{partition}: node {node_id} is not in sync" in str(error)
        return False

    wait_until(is_not_in_sync, f"node {node_id} leaves the in-sync replicas", interval_s=0.05)


def test_acknowledged_records_survive_the_kill_of_the_leader(cluster: Cluster) -> None:
    topic = cluster.create_topic("killed")
    with Writer(cluster.bootstrap, topic) as writer:
        leader = cluster.leader_of(topic)
        leader.kill()
        assert not leader.is_running
        assert cluster.leader_of(topic) is not leader
        writer.wait_for_more()
        leader.start()
        cluster.wait_until_in_sync(topic)
        writer.wait_for_more()
    check(cluster, topic, writer)


def test_a_client_leaves_a_leader_that_is_paused(cluster: Cluster) -> None:
    topic = cluster.create_topic("paused")
    with Writer(cluster.bootstrap, topic) as writer:
        leader = cluster.leader_of(topic)
        leader.pause()
        assert cluster.leader_of(topic, other_than=leader) is not leader
        writer.wait_for_more()
        leader.resume()
        cluster.wait_until_in_sync(topic)
        writer.wait_for_more()
    check(cluster, topic, writer)


def test_a_leader_that_is_cut_off_gives_way_and_nothing_is_lost(cluster: Cluster) -> None:
    topic = cluster.create_topic("cut")
    with Writer(cluster.bootstrap, topic) as writer:
        leader = cluster.leader_of(topic)
        cluster.cut(leader)
        assert cluster.leader_of(topic, other_than=leader) is not leader
        assert leader.is_running
        writer.wait_for_more()
        cluster.heal()
        cluster.wait_until_in_sync(topic)
        writer.wait_for_more()
    check(cluster, topic, writer)


def test_two_nodes_that_are_cut_from_each_other_stay_in_the_cluster(cluster: Cluster) -> None:
    topic = cluster.create_topic("pair", partitions=3, configs={"min.insync.replicas": 2})
    controller = cluster.controller
    partition = next(number for number in range(3) if cluster.leader_of(topic, number) is not controller)
    leader = cluster.leader_of(topic, partition)
    follower = next(node for node in cluster.followers_of(topic, partition) if node is not controller)
    with Writer(cluster.bootstrap, topic, partition) as writer:
        cluster.cut(leader, follower)
        wait_until_not_in_sync(cluster, topic, partition, follower.node_id)
        # The controller hears both, so neither is fenced and the leader stays.
        cluster.wait_until_ready()
        assert cluster.leader_of(topic, partition) is leader
        writer.wait_for_more()
        cluster.heal()
        cluster.wait_until_in_sync(topic)
    check(cluster, topic, writer, partition)


def test_a_group_of_aiokafka_goes_on_after_its_coordinator_was_killed(cluster: Cluster) -> None:
    topic = cluster.create_topic("group")

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
            retry_backoff_ms=50,
        )
        await asyncio.gather(producer.start(), consumer.start())
        try:
            values = []
            for number in range(4):
                await producer.send_and_wait(topic, str(number).encode(), partition=0)
                values.append((await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value)
                await consumer.commit()
                if number == 1:
                    await asyncio.to_thread(cluster.leader_of("__consumer_offsets").kill)
            return values
        finally:
            await asyncio.gather(producer.stop(), consumer.stop())

    assert asyncio.run(run()) == [b"0", b"1", b"2", b"3"]


def test_what_is_asked_wrongly_is_one_line(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="1 to 9 nodes, not 0"):
        Cluster(nodes=0)
    with pytest.raises(ValueError, match="no node 7"):
        cluster.node(7)
    with pytest.raises(ValueError, match="from itself"):
        cluster.cut(cluster.nodes[0], cluster.nodes[0])
    with pytest.raises(TimeoutError, match="no partition nothing-0"):
        cluster.leader_of("nothing", timeout_s=0)
    with pytest.raises(BrokerError, match="replication"):
        cluster.create_topic("too-many", replicas=9)
    with pytest.raises(RuntimeError, match="running already"):
        cluster.nodes[0].start()


def test_one_node_keeps_its_directory_and_shows_its_log_in_a_failure(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    cluster = Cluster(nodes=1, settings={"num.partitions": 2}, directory=directory)
    ports = []

    def fail_in_the_end() -> None:
        with cluster:
            [node] = cluster.nodes
            cluster.create_topic("kept")
            node.restart()
            assert cluster.leader_of("kept", 1) is node
            ports.extend([int(node.bootstrap_servers.rpartition(":")[2]), node.port])
            raise AssertionError("seen")

    with pytest.raises(AssertionError, match="seen") as failure:
        fail_in_the_end()
    [note] = failure.value.__notes__
    assert "<node 1: running>" in note
    assert "ready" in note or "stopping" in note
    assert (directory / "node-1" / "kept-1").is_dir()
    assert (directory / "node-1.log").stat().st_size > 0
    for freed in ports:
        socket.create_server(("127.0.0.1", freed)).close()
    with pytest.raises(NodeStartError, match="not empty: name a new one"):
        Cluster(nodes=1, directory=directory).start()


def test_a_node_that_does_not_start_says_why() -> None:
    with pytest.raises(NodeStartError, match=r"node 1 did not start: .*no\.such\.setting"):
        Cluster(nodes=1, settings={"no.such.setting": "1"}).start()


OWNER = """
import time
from tidelog.testing import Cluster

cluster = Cluster(nodes=1).start()
cluster.nodes[0].pause()
print(cluster.nodes[0].pid, flush=True)
time.sleep(100)
"""


def test_nodes_end_with_the_process_that_started_them() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout:
        pid = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}")


def is_alive(pid: int) -> bool:
    """A process that ended may wait for a moment until its new parent has asked for its code."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False

"""SIGKILL in the middle of load, again and again: every acknowledged record is there, in order, once."""

from __future__ import annotations

import random
import time

import pytest
from tests.faults.conftest import Node
from tests.faults.load import SteadyLoad, check_promises, read_log
from tests.servers.tidelog_node import spawn_tidelog
from tests.servers.topics import create_topic
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.generated.metadata import MetadataRequest


def run_rounds(node: Node, *, rounds: int, idempotent: bool, seed: int, **settings: str) -> None:
    source = random.Random(seed)
    node.start(**settings)
    with Connection(node.port) as connection:
        # Small segments, so that crashes meet rolls and recovery meets several files.
        topic = create_topic(connection, "kill", configs={"segment.bytes": "1048576", "index.interval.bytes": "500"})
    load = SteadyLoad(node.bootstrap, topic, idempotent=idempotent)
    load.start()
    for _ in range(rounds):
        before = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > before + 100, "records are acknowledged", 60)  # noqa: B023
        time.sleep(source.random() * 0.3)
        node.kill()
        node.start(**settings)
    load.stop()
    assert load.failed == []
    assert len(load.acknowledged) == load.sent
    log = read_log(node.port, topic)
    check_promises(load, log, once=idempotent)
    node.running.stop()
    node.start(**settings)
    assert read_log(node.port, topic) == log, "a clean restart changed the log"


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_nothing_acknowledged_is_lost(node: Node, idempotent: bool) -> None:
    run_rounds(node, rounds=5, idempotent=idempotent, seed=1)


def test_nothing_acknowledged_is_lost_with_a_flush_before_each_ack(node: Node) -> None:
    run_rounds(node, rounds=2, idempotent=True, seed=2, tidelog_flush="ack")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost_over_many_rounds(node: Node, idempotent: bool, seed: int) -> None:
    run_rounds(node, rounds=60, idempotent=idempotent, seed=100 + seed)


def test_a_kill_right_after_the_start(node: Node) -> None:
    """Half-made directories and files of a first start do not keep the next one from starting."""
    for delay_ms in (0, 20, 50, 80, 120, 160, 200, 260):
        broker = spawn_tidelog(node.directory, node.port)
        time.sleep(delay_ms / 1000)
        broker.kill()
    node.start()
    with Connection(node.port) as connection:
        create_topic(connection)


def test_topics_and_configs_outlive_a_kill(node: Node) -> None:
    node.start()
    with Connection(node.port) as connection:
        names = [create_topic(connection, partitions=3, configs={"retention.ms": "77777"}) for _ in range(20)]
    node.kill()
    node.start()
    with Connection(node.port) as connection:
        listed = {
            topic.name: len(topic.partitions) for topic in connection.call(MetadataRequest(topics=None), 9).topics
        }
        resource = DescribeConfigsResource(resource_type=2, resource_name=names[7], configuration_keys=["retention.ms"])
        [described] = connection.call(DescribeConfigsRequest(resources=[resource]), 4).results
    assert dict.fromkeys(names, 3).items() <= listed.items()
    assert described.configs[0].value == "77777"

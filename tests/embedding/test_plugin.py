"""The plugin as a user has it: a pytest run of its own, in a directory of its own."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = """
from confluent_kafka import Consumer, Producer, TopicPartition

import pytest


def write(servers, topic, **options):
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 50000})
    failures = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: failures.append(error) if error else None, **options)
    assert producer.flush(60) == 0
    assert not failures


def end_offset(broker, topic, partition=0):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)[1]
    finally:
        consumer.close()


@pytest.mark.parametrize("value", ["a b/c", "ü"])
def test_fresh_topic(tidelog_broker, tidelog_bootstrap_servers, tidelog_topic, value):
    assert end_offset(tidelog_broker, tidelog_topic) == 0
    write(tidelog_bootstrap_servers, tidelog_topic)
    assert end_offset(tidelog_broker, tidelog_topic) == 1


def test_topics_of_any_kind(tidelog_broker, tidelog_create_topic):
    one, two = tidelog_create_topic(partitions=3), tidelog_create_topic(configs={"cleanup.policy": "compact"})
    assert one != two
    write(tidelog_broker.bootstrap_servers, one, partition=2)
    assert end_offset(tidelog_broker, one, 2) == 1
    assert tidelog_broker.node.config.num_partitions == 5


def test_own_brokers(tidelog_broker, tidelog_broker_factory):
    own = tidelog_broker_factory({"node.id": 9})
    assert own.port != tidelog_broker.port
    own.create_topic("t")
    own.restart()
    assert end_offset(own, "t") == 0
"""

CLUSTER_EXAMPLE = """
import pytest
from kafka import KafkaConsumer, KafkaProducer


def test_a_leader_is_killed(tidelog_cluster, tidelog_cluster_topic):
    servers = tidelog_cluster.bootstrap_servers.split(",")
    tidelog_cluster.leader_of(tidelog_cluster_topic).kill()
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", retries=50)
    producer.send(tidelog_cluster_topic, b"v").get(60)
    producer.close()


def test_every_test_has_a_whole_cluster(tidelog_cluster, tidelog_cluster_topic):
    assert [node.is_running for node in tidelog_cluster.nodes] == [True, True, True]
    tidelog_cluster.wait_until_in_sync(timeout_s=0)


def test_a_failure_shows_the_nodes(tidelog_cluster):
    tidelog_cluster.nodes[1].kill()
    pytest.fail("on purpose")
"""

CONFTEST = """
import pytest


@pytest.fixture(scope="session")
def tidelog_config():
    return {"num.partitions": 5}
"""


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=100)


def test_fixtures_in_a_project_that_uses_them(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = run_pytest(tmp_path, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_a_cluster_for_tests(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(CLUSTER_EXAMPLE)
    done = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout
    shown = done.stdout.partition("- Nodes of tidelog_cluster -")[2]
    assert "<node 1: running>" in shown
    assert "<node 2: ended with code -9>" in shown
    assert "controller: controller node=" in shown


def test_a_project_that_does_not_use_them_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(
        "import sys\n"
        "def test_nothing_of_the_node_is_imported():\n"
        "    loaded = {name for name in sys.modules if name.split('.')[0] == 'tidelog'} - {'tidelog'}\n"
        "    names = ('compiled', 'version', 'testing', 'testing.plugin')\n"
        "    assert loaded == {f'tidelog.{name}' for name in names}\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fixtures_are_listed_with_their_meaning(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text("def test_nothing(): pass\n")
    done = run_pytest(tmp_path, "--fixtures")
    for fixture in (
        "tidelog_broker",
        "tidelog_topic",
        "tidelog_bootstrap_servers",
        "tidelog_broker_factory",
        "tidelog_cluster",
    ):
        assert f"\n{fixture}" in done.stdout

"""What a working cluster and a pipeline expose: metric names with the labels of their samples."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import wait_until

from tidelog.pipelines.run.metrics import PipelineCollector
from tidelog.pipelines.run.progress import QueryStatus
from tidelog.testing import Cluster

DEADLINE_S = 30.0
TARGET_LABELS = frozenset({"cluster", "instance", "job"})
"""What Prometheus adds to every sample, as deploy/monitoring/prometheus.yaml says."""
_ADMIN_PORT = re.compile(r"admin port open .*port=(\d+)")

Exposed = dict[str, frozenset[str]]


def of_nodes(cluster: Cluster) -> Exposed:
    """All nodes together, after some traffic of each kind."""
    ports = [_admin_port(cluster, node.node_id) for node in cluster.nodes]
    found: Exposed = {}
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found |= _read(answer.read().decode())
    return found


def of_pipelines() -> Exposed:
    """As a run with every kind of figure would show them."""
    status = QueryStatus(name="q", target="t", state="running", bad_records=1, lag_offsets=2, lag_ms=3)
    status.watermark = "2026-01-01T00:00:00+00:00"
    status.rule_violations = {"positive": 1}
    status.dead_letters = {"letters": 1}
    registry = CollectorRegistry()
    registry.register(PipelineCollector("p", [status]))
    return _read(generate_latest(registry).decode())


def make_traffic(cluster: Cluster) -> None:
    """Records, a group that commits, a transaction and an error."""
    topic = cluster.create_topic("monitored", partitions=3)
    clients = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    producer = Producer({**clients, "transactional.id": "monitored"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.commit_transaction(DEADLINE_S)
    consumer = Consumer({**clients, "group.id": "monitored", "auto.offset.reset": "error"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.assign([TopicPartition(topic, 0, 1000)])
    _wait_for_error(consumer)
    consumer.close()


def _wait_for_error(consumer: Consumer) -> None:
    def is_refused() -> bool:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        return error is not None and error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)

    wait_until(is_refused, "an error for an offset that does not exist")


def _admin_port(cluster: Cluster, node_id: int) -> int:
    log = cluster.directory / f"node-{node_id}.log"
    found = wait_until(lambda: _ADMIN_PORT.search(log.read_text()), f"the admin port of node {node_id} in its log")
    assert found is not None
    return int(found[1])


def _read(text: str) -> Exposed:
    return dict(_samples(text))


def _samples(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, frozenset(sample.labels)

"""All nodes are stopped and started one after the other under load, as an operator does it: clients only try again."""

from __future__ import annotations

import signal
import threading
import time

from confluent_kafka import Consumer, KafkaException
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS, Load, create_topic, is_whole, spread_leaders, wait_for
from tests.faults.cluster.promise import Promise
from tests.waiting import wait_until

from tidelog.cli.local_cluster import LocalCluster

NODES = (1, 2, 3)


class Readers:
    """A group of one that reads and commits all the time; who it is and what it saw stays through every restart."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"readers-{topic}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.seen.update(
                int(message.value()) for message in self._consumer.consume(500, 0.2) if not message.error()
            )
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException:
                # The coordinator is moving, or there is nothing new.
                continue

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()


def test_a_rolling_restart_is_noticed_by_nobody_but_as_retries(cluster: LocalCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    spread_leaders(cluster.bootstrap, topic)
    load = Load(cluster.bootstrap, topic)
    load.start()
    readers = Readers(cluster.bootstrap, topic)
    load.wait_for_writes(list(range(PARTITIONS)), 0.0)
    promise, to_restart = Promise(), list(NODES)
    while to_restart:
        node_id = to_restart[0]
        spread_leaders(cluster.bootstrap, topic)
        since_s = time.monotonic()
        cluster.send_signal(node_id, signal.SIGTERM)
        if promise.is_kept(load.wait_for_writes(list(range(PARTITIONS)), since_s)):
            to_restart.remove(node_id)
        wait_until(lambda stopped=node_id: stopped in cluster.ended, f"node {node_id} has stopped", DEADLINE_S)
        cluster.start_again(node_id)
        wait_for(cluster.bootstrap, is_whole, "a whole cluster again")
    load.stop()
    load.check(cluster.bootstrap)
    acknowledged = set().union(*load.acknowledged.values())
    wait_until(lambda: acknowledged <= readers.seen, "everything is read", DEADLINE_S)
    readers.stop()

"""A simulated idempotent producer: one batch at a time with acks=all, sent again until it is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.replication_controller import TOPIC
from tests.simulation.replication_observations import Acknowledged

from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.simulation.replication_cluster import ReplicationCluster

RETRY_MS = 120.0
TIMESTAMP_MS = 1_700_000_000_000


class SimulatedProducer:
    def __init__(self, cluster: ReplicationCluster, number: int, partition: int) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._client_id = 100 + number
        self._number = number
        self._partition = partition
        self._sequence = 0
        self._values: list[bytes] = []
        self._attempt = 0
        self.is_stopping = False
        """Nothing new is sent; what is under way is brought to its end."""
        self.acknowledged = 0
        self._next()

    @property
    def is_done(self) -> bool:
        return self.is_stopping and not self._values

    def _next(self) -> None:
        if not self.is_stopping:
            count = self._world.random.randint(1, 3)
            self._values = [f"{self._number}:{self._sequence + index}".encode() for index in range(count)]
            self._send()

    def _send(self) -> None:
        self._attempt += 1
        attempt, sequence, values = self._attempt, self._sequence, self._values
        # Metadata of a client is often old.
        history = self._cluster.controller.history
        image = history[max(0, len(history) - 1 - int(self._world.random.expovariate(1.0)))][0]
        topic = image.topics.get(TOPIC)
        leader = -1 if topic is None else topic.partitions[self._partition].leader
        if leader >= 0:
            broker = self._cluster.brokers[leader]
            batch = build_batch(
                [NewRecord(None, value, TIMESTAMP_MS) for value in values],
                producer_id=self._client_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
            network = self._cluster.network

            def reply(code: int, offset: int) -> None:
                network.send(leader, self._client_id, lambda: self._answered(sequence, code, offset))

            network.send(self._client_id, leader, lambda: broker.produce(self._partition, batch, reply))
        self._world.after(RETRY_MS, lambda: self._maybe_retry(attempt))

    def _maybe_retry(self, attempt: int) -> None:
        if attempt == self._attempt and self._values:
            self._send()

    def _answered(self, sequence: int, code: int, offset: int) -> None:
        if sequence != self._sequence or not self._values:
            return
        if code:
            self._world.note(f"producer {self._number}", f"refused with {code}")
            return
        for index, value in enumerate(self._values):
            self._world.observe(Acknowledged(self._partition, offset + index, value))
        self.acknowledged += len(self._values)
        self._sequence += len(self._values)
        self._values = []
        self._world.after(self._world.random.uniform(0.0, 20.0), self._next)

"""The controller of a simulated cluster: the real decisions on the real image, without a quorum behind it.

It never fails; messages to and from it do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.simulation.world import World

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome, decide_alter_partitions
from tidelog.controller.core.brokers import (
    Registration,
    decide_fence_broker,
    decide_heartbeat,
    decide_lead_again,
    decide_leave_partitions,
    decide_register_broker,
)
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.partition_change import directory_of
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import Endpoint, MetadataImage
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message

R = TypeVar("R")
CONTROLLER = 0
SESSION_MS = 400.0
TOPIC = "t"
TOPIC_ID = b"T" * 16


class SimulatedController:
    def __init__(self, world: World) -> None:
        self._world = world
        self._config = BrokerConfig()
        self._heard_ms: dict[int, float] = {}
        self.history: list[tuple[MetadataImage, MetadataDelta]] = [(MetadataImage(), MetadataDelta(MetadataImage()))]
        """Every image there was, with what changed in it: the metadata log."""
        world.after(SESSION_MS / 4, self._check_sessions)

    @property
    def image(self) -> MetadataImage:
        return self.history[-1][0]

    def decide(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        decision = decide(self.image)
        if decision.records:
            delta = MetadataDelta(self.image, decision.records)
            self.history.append((delta.apply(self.image.offset + len(decision.records), 0), delta))
        return decision.reply

    def create_topic(self, replicas: Sequence[int], partitions: int, configs: Mapping[str, str]) -> None:
        records: list[Message] = [TopicRecord(name=TOPIC, topic_id=TOPIC_ID)]
        for index in range(partitions):
            turned = [*replicas[index % len(replicas) :], *replicas[: index % len(replicas)]]
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=TOPIC_ID,
                    replicas=turned,
                    isr=turned,
                    leader=turned[0],
                    leader_epoch=0,
                    directories=[directory_of(self.image, node_id) for node_id in turned],
                )
            )
        records += [
            ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=value)
            for name, value in configs.items()
        ]
        self.decide(lambda _: Decision(records, None))

    def move_leadership(self, index: int) -> None:
        """To any replica in sync that is alive, as an operator might ask for."""
        state = self.image.topics[TOPIC].partitions[index]
        able = [node_id for node_id in state.isr if self.image.is_active(node_id) and node_id != state.leader]
        if able and state.leader >= 0:
            leader = self._world.random.choice(able)
            self._world.note("controller", f"partition {index} goes from {state.leader} to {leader}")
            record = PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=leader)
            self.decide(lambda _: Decision([record], None))

    # -- what brokers ask ----------------------------------------------------------------------------------------------

    def register(self, node_id: int, incarnation_id: bytes, directory_id: bytes) -> int | None:
        """The broker epoch; None while an earlier incarnation may be alive."""
        registration = Registration(node_id, incarnation_id, [Endpoint("P", "h", node_id)], [directory_id])
        try:
            epoch = self.decide(
                lambda image: decide_register_broker(
                    image, self._config, registration, has_session=self._has_session(node_id)
                )
            )
        except BrokerError:
            return None
        self._world.note("controller", f"node {node_id} registered with epoch {epoch}")
        return epoch

    def heartbeat(self, node_id: int, epoch: int, metadata_offset: int) -> None:
        try:
            self.decide(
                lambda image: decide_heartbeat(image, self._config, node_id, epoch, metadata_offset=metadata_offset)
            )
        except BrokerError:
            return
        self._heard_ms[node_id] = self._world.now_ms

    def alter_partitions(self, node_id: int, epoch: int, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        try:
            outcomes = self.decide(lambda image: decide_alter_partitions(image, node_id, epoch, changes))
        except BrokerError:
            return []
        for outcome in outcomes:
            what = outcome.error.code.name if outcome.error is not None else f"{outcome.state}"
            self._world.note("controller", f"node {node_id} asks for {changes[0].isr}: {what}")
        return outcomes

    def hears(self, node_id: int, epoch: int) -> bool:
        """Whether this incarnation works and was heard of a moment ago."""
        broker = self.image.brokers.get(node_id)
        if broker is None or broker.epoch != epoch or not self.image.is_active(node_id):
            return False
        return self._world.now_ms - self._heard_ms.get(node_id, -1e9) < SESSION_MS / 3

    # -- what it does by itself ----------------------------------------------------------------------------------------

    def _has_session(self, node_id: int) -> bool:
        return self._world.now_ms - self._heard_ms.get(node_id, -1e9) < SESSION_MS

    def _check_sessions(self) -> None:
        for node_id in list(self.image.brokers):
            if not self._has_session(node_id) and self.image.is_live(node_id):
                self._world.note("controller", f"node {node_id} is fenced")
                self.decide(lambda image, node_id=node_id: decide_fence_broker(image, self._config, node_id))
        self.decide(lambda image: decide_leave_partitions(image, self._config))
        self.decide(lambda image: decide_lead_again(image, self._config))
        self._world.after(SESSION_MS / 4, self._check_sessions)

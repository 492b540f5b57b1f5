"""The cluster as this node knows it: the state after replaying the metadata log, one sub-image per subject.

An image never changes once it is published; `metadata.delta` builds the next one and shares what stayed the same. An
image may be kept over an await.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from tidelog.config.broker import BrokerConfig
from tidelog.metadata import table
from tidelog.metadata.brokers import BrokerImage, BrokersImage, Endpoint
from tidelog.metadata.configs import CORDONED, ConfigsImage
from tidelog.metadata.features import FeaturesImage
from tidelog.metadata.producer_ids import ProducerIdsImage
from tidelog.metadata.sub_image import SubImage
from tidelog.metadata.topics import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_LEADER,
    PartitionState,
    TopicImage,
    TopicsImage,
)
from tidelog.protocol.message import Message

__all__ = [
    "CORDONED",
    "INTERNAL_TOPICS",
    "METADATA_TOPIC",
    "NO_LEADER",
    "BrokerImage",
    "Endpoint",
    "MetadataImage",
    "PartitionState",
    "TopicImage",
]

S = TypeVar("S", bound=SubImage)


class MetadataImage:
    """`part` returns any sub-image. What requests read often is an attribute, set once from the sub-images."""

    __slots__ = (
        "_parts",
        "broker_configs",
        "brokers",
        "cluster_id",
        "controller_id",
        "epoch",
        "features",
        "group_configs",
        "offset",
        "topics",
        "topics_by_id",
    )

    def __init__(
        self, *parts: SubImage, cluster_id: str = "", controller_id: int = -1, offset: int = -1, epoch: int = 0
    ) -> None:
        """Sub-images that are not given are empty."""
        given = {type(part): part for part in parts}
        self._parts: dict[type[SubImage], SubImage] = {
            kind.IMAGE: given.get(kind.IMAGE) or kind.IMAGE() for kind in table.SUB_DELTAS
        }
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.offset = offset
        """The last record of the metadata log that is in here; -1 for none."""
        self.epoch = epoch
        """The epoch of the controller that wrote it."""
        topics, configs = self.part(TopicsImage), self.part(ConfigsImage)
        self.topics = topics.by_name
        self.topics_by_id = topics.by_id
        self.broker_configs = configs.brokers
        self.group_configs = configs.groups
        self.brokers = self.part(BrokersImage).by_id
        self.features = self.part(FeaturesImage).levels

    def part(self, kind: type[S]) -> S:
        return cast("S", self._parts[kind])

    def records(self) -> Iterator[Message]:
        """Replayed on an empty image they make this one again: what a snapshot holds."""
        for part in self._parts.values():
            yield from part.records()

    def with_parts(self, changed: Iterable[SubImage], *, offset: int, epoch: int) -> MetadataImage:
        """The image with some sub-images replaced, at another offset of the metadata log."""
        parts = self._parts | {type(part): part for part in changed}
        return MetadataImage(
            *parts.values(),
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            offset=offset,
            epoch=epoch,
        )

    def with_controller(self, controller_id: int) -> MetadataImage:
        """The same, seen by a node that knows another controller, which no record names."""
        return MetadataImage(
            *self._parts.values(),
            cluster_id=self.cluster_id,
            controller_id=controller_id,
            offset=self.offset,
            epoch=self.epoch,
        )

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    @property
    def partition_count(self) -> int:
        return self.part(TopicsImage).partition_count

    @property
    def next_producer_id(self) -> int:
        return self.part(ProducerIdsImage).next_producer_id

    def topic(self, name: str | None, topic_id: bytes | None = None) -> TopicImage | None:
        if name is not None:
            return self.topics.get(name)
        return self.topics_by_id.get(topic_id or b"")

    def live_brokers(self) -> Iterator[BrokerImage]:
        return (broker for broker in self.brokers.values() if not broker.fenced)

    def is_live(self, node_id: int) -> bool:
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def is_active(self, node_id: int) -> bool:
        """Whether the broker can lead and be in sync: alive, and not about to stop."""
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def active_brokers(self) -> Iterator[BrokerImage]:
        return (broker for broker in self.brokers.values() if self.is_active(broker.node_id))

    def is_cordoned(self, node_id: int) -> bool:
        """Whether the broker keeps what it has and gets nothing new: it is being emptied."""
        return bool(self.broker_configs.get(str(node_id), {}).get(CORDONED))

    def open_brokers(self) -> Iterator[BrokerImage]:
        """Brokers that new replicas may be placed on."""
        return (broker for broker in self.active_brokers() if not self.is_cordoned(broker.node_id))

    def broker_config(self, static: BrokerConfig) -> BrokerConfig:
        """What holds on the node with these static settings, once run-time settings are applied."""
        configs = self.broker_configs
        return static.with_dynamic(configs.get("", {}), configs.get(str(static.node_id), {}))

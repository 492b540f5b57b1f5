"""The cluster as this node knows it: topics, partitions, brokers, settings, features. The fold over the metadata log.

An image never changes once it is published; `metadata.replay` builds the next one and shares what stayed the same.
Everyone who holds an image may keep it over an await.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics the node keeps its own state in; clients are told that they are internal."""

METADATA_TOPIC = "__cluster_metadata"

NO_LEADER = -1

CORDONED = "cordoned.log.dirs"
"""The setting of a broker that keeps new replicas away from it (KIP-1066). A node has one data directory, so that any
value means all of the node."""


class PartitionState(NamedTuple):
    leader: int
    """The node id, or -1 while no replica can lead."""
    leader_epoch: int
    """Grows with every change of leader; a leader that came back from a crash counts as a new one."""
    partition_epoch: int
    """Grows with every change of anything here."""
    replicas: tuple[int, ...]
    """The preferred leader first."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    """The id of the data directory of each replica, in the order of `replicas`."""
    leader_recovery_state: int = 0
    """1 while a leader that was not in sync is recovering."""


class TopicImage:
    """One topic. `partitions` has the keys 0 to n-1."""

    __slots__ = ("config", "name", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: bytes, partitions: dict[int, PartitionState], config: Mapping[str, str]
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.config = config
        """What was set on the topic, as text; the rest comes from the broker."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def effective_config(self, broker: BrokerConfig) -> TopicConfig:
        """All settings of the topic on a broker (with its dynamic settings applied)."""
        return TopicConfig.from_overrides(self.config, broker)

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {len(self.partitions)} partitions)"


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


class BrokerImage(NamedTuple):
    node_id: int
    epoch: int
    """The offset of the registration: a node that registers again is a new one."""
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...]
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest level the node supports."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Where clients of this listener find the node; the only endpoint there is serves every listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        return self.endpoints[0] if len(self.endpoints) == 1 else None


class MetadataImage:
    """`topics` and `topics_by_id` hold the same objects."""

    __slots__ = (
        "broker_configs",
        "brokers",
        "cluster_id",
        "controller_id",
        "epoch",
        "features",
        "group_configs",
        "next_producer_id",
        "offset",
        "partition_count",
        "topics",
        "topics_by_id",
    )

    def __init__(
        self,
        *,
        cluster_id: str = "",
        topics: dict[str, TopicImage] | None = None,
        topics_by_id: dict[bytes, TopicImage] | None = None,
        brokers: dict[int, BrokerImage] | None = None,
        broker_configs: dict[str, Mapping[str, str]] | None = None,
        group_configs: dict[str, Mapping[str, str]] | None = None,
        features: dict[str, int] | None = None,
        next_producer_id: int = 0,
        controller_id: int = -1,
        offset: int = -1,
        epoch: int = 0,
        partition_count: int = 0,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = {} if topics is None else topics
        self.topics_by_id = {} if topics_by_id is None else topics_by_id
        self.brokers = {} if brokers is None else brokers
        self.broker_configs = {} if broker_configs is None else broker_configs
        """Set at run time, by node id as text; "" holds for all brokers."""
        self.group_configs = {} if group_configs is None else group_configs
        self.features = {} if features is None else features
        self.next_producer_id = next_producer_id
        """The first producer id that was never handed out."""
        self.controller_id = controller_id
        self.offset = offset
        """The last record of the metadata log that is in here; -1 for none."""
        self.epoch = epoch
        """The epoch of the controller that wrote it."""
        self.partition_count = partition_count

    @property
    def next_offset(self) -> int:
        return self.offset + 1

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
        """Those new replicas may be placed on."""
        return (broker for broker in self.active_brokers() if not self.is_cordoned(broker.node_id))

    def with_controller(self, controller_id: int) -> MetadataImage:
        """The same, seen by a node that knows another controller: who it is stands in no record."""
        other = MetadataImage(cluster_id=self.cluster_id)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.controller_id = controller_id
        return other

    def broker_config(self, static: BrokerConfig) -> BrokerConfig:
        """What holds on the node with these static settings, once run-time settings are applied."""
        configs = self.broker_configs
        return static.with_dynamic(configs.get("", {}), configs.get(str(static.node_id), {}))

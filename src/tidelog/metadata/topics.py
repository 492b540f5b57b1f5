"""Topics with their partitions and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.metadata.configs import RESOURCE_TOPIC, config_records, with_setting
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.sub_image import SubDelta, changed_keys
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that hold state of the nodes; Metadata responses mark them as internal."""

METADATA_TOPIC = "__cluster_metadata"

NO_LEADER = -1
NO_LEADER_CHANGE = -2


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


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """`by_name` and `by_id` hold the same objects."""

    by_name: dict[str, TopicImage] = field(default_factory=dict)
    by_id: dict[bytes, TopicImage] = field(default_factory=dict)
    partition_count: int = 0

    @classmethod
    def of(cls, topics: Iterable[TopicImage]) -> TopicsImage:
        by_name = {topic.name: topic for topic in topics}
        count = sum(len(topic.partitions) for topic in by_name.values())
        return cls(by_name, {topic.topic_id: topic for topic in by_name.values()}, count)

    def records(self) -> Iterator[Message]:
        for topic in self.by_name.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for index, state in topic.partitions.items():
                yield partition_record(topic.topic_id, index, state)
            yield from config_records(RESOURCE_TOPIC, topic.name, topic.config)


class TopicsDelta(SubDelta[TopicsImage]):
    """Topics are named by what they were (deleted) or are now (created, changed). A topic that was deleted and created
    again under its name appears in both; look at the ids."""

    __slots__ = (
        "_base",
        "_by_id",
        "_by_name",
        "_copied",
        "_partition_count",
        "configs_changed",
        "created",
        "deleted",
        "partitions_changed",
    )

    IMAGE = TopicsImage

    def __init__(self, base: TopicsImage) -> None:
        self._base = base
        self._by_name = base.by_name
        self._by_id = base.by_id
        self._partition_count = base.partition_count
        self._copied: dict[bytes, TopicImage] = {}
        """Copies of topics of the base: these may be changed in place, as those that were created here."""
        self.created: dict[bytes, TopicImage] = {}
        """By id."""
        self.deleted: list[TopicImage] = []
        self.partitions_changed: dict[str, set[int]] = {}
        """Topics that existed before: the partitions that were added or changed."""
        self.configs_changed: set[str] = set()
        """Topics that existed before and whose overrides changed."""

    def replay_topic(self, record: TopicRecord) -> None:
        topic_id = bytes(record.topic_id)
        topic = self.created[topic_id] = TopicImage(record.name, topic_id, {}, {})
        self._put(topic)

    def replay_partition(self, record: PartitionRecord) -> None:
        topic = self._changeable(record.topic_id)
        index = record.partition_id
        if index not in topic.partitions:
            self._partition_count += 1
        topic.partitions[index] = PartitionState(
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.replicas),
            tuple(record.isr),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            tuple(record.directories),
            record.leader_recovery_state,
        )
        self._note_partition(topic, index)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._changeable(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise UnreadableMetadata(f"change of unknown partition {topic.name}-{record.partition_id}")
        topic.partitions[record.partition_id] = changed_partition(before, record)
        self._note_partition(topic, record.partition_id)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._by_id.get(record.topic_id)
        if topic is None:
            raise UnreadableMetadata("removal of a topic id that is not known")
        self._copy_tables()
        del self._by_id[topic.topic_id]
        del self._by_name[topic.name]
        self._copied.pop(topic.topic_id, None)
        self._partition_count -= len(topic.partitions)
        if self.created.pop(topic.topic_id, None) is None:
            self.deleted.append(topic)
            self.partitions_changed.pop(topic.name, None)
            self.configs_changed.discard(topic.name)

    def replay_config(self, record: ConfigRecord) -> None:
        if record.resource_type != RESOURCE_TOPIC:
            return
        known = self._by_name.get(record.resource_name)
        if known is None:
            raise UnreadableMetadata(f"setting of unknown topic {record.resource_name}")
        topic = self._changeable(known.topic_id)
        topic.config = with_setting(topic.config, record)
        if topic.topic_id not in self.created:
            self.configs_changed.add(topic.name)

    def _note_partition(self, topic: TopicImage, index: int) -> None:
        if topic.topic_id not in self.created:
            self.partitions_changed.setdefault(topic.name, set()).add(index)

    def _changeable(self, topic_id: bytes) -> TopicImage:
        """The topic as an object that no published image holds."""
        topic = self.created.get(topic_id) or self._copied.get(topic_id)
        if topic is None:
            known = self._by_id.get(topic_id)
            if known is None:
                raise UnreadableMetadata("record of a topic id that is not known")
            topic = TopicImage(known.name, known.topic_id, dict(known.partitions), known.config)
            self._copied[topic.topic_id] = topic
            self._put(topic)
        return topic

    def _put(self, topic: TopicImage) -> None:
        self._copy_tables()
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _copy_tables(self) -> None:
        if self._by_name is self._base.by_name:
            self._by_name = dict(self._base.by_name)
            self._by_id = dict(self._base.by_id)

    def apply(self) -> TopicsImage:
        if self._by_name is self._base.by_name:
            return self._base
        return TopicsImage(self._by_name, self._by_id, self._partition_count)

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.deleted or self.partitions_changed or self.configs_changed)

    @classmethod
    def between(cls, before: TopicsImage, after: TopicsImage) -> TopicsDelta:
        delta = cls(after)
        delta.deleted = [topic for topic_id, topic in before.by_id.items() if topic_id not in after.by_id]
        for topic_id, topic in after.by_id.items():
            known = before.by_id.get(topic_id)
            if known is None:
                delta.created[topic_id] = topic
                continue
            changed = changed_keys(known.partitions, topic.partitions)
            if changed:
                delta.partitions_changed[topic.name] = changed
            if known.config != topic.config:
                delta.configs_changed.add(topic.name)
        return delta

    REPLAYS = {
        TopicRecord: replay_topic,
        PartitionRecord: replay_partition,
        PartitionChangeRecord: replay_partition_change,
        RemoveTopicRecord: replay_remove_topic,
        ConfigRecord: replay_config,
    }


def changed_partition(before: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """A partition after a change: what the record leaves out stays."""
    elected = record.leader != NO_LEADER_CHANGE
    removing, adding = record.removing_replicas, record.adding_replicas
    recovery_state = record.leader_recovery_state
    return PartitionState(
        leader=record.leader if elected else before.leader,
        leader_epoch=before.leader_epoch + 1 if elected else before.leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        replicas=before.replicas if record.replicas is None else tuple(record.replicas),
        isr=before.isr if record.isr is None else tuple(record.isr),
        removing_replicas=before.removing_replicas if removing is None else tuple(removing),
        adding_replicas=before.adding_replicas if adding is None else tuple(adding),
        directories=before.directories if record.directories is None else tuple(record.directories),
        leader_recovery_state=before.leader_recovery_state if recovery_state < 0 else recovery_state,
    )


def partition_record(topic_id: bytes, index: int, state: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing_replicas),
        adding_replicas=list(state.adding_replicas),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=list(state.directories),
    )

"""From an image and records to the next image and the delta. `replay` never decides: it does what the record says.

A builder works on copies of what it touches: one copy of the topic table per batch of records, not per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionState, TopicImage
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.generated.register_broker_record import RegisterBrokerRecord
from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.generated.unfence_broker_record import UnfenceBrokerRecord
from tidelog.protocol.generated.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.message import Message

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_GROUP = 32

NO_LEADER_CHANGE = -2


class ImageBuilder:
    """Replays records on top of an image. Use once: `replay`..., then `finish`."""

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._delta = MetadataDelta()
        self._topics = base.topics
        self._topics_by_id = base.topics_by_id
        self._brokers = base.brokers
        self._broker_configs = base.broker_configs
        self._group_configs = base.group_configs
        self._features = base.features
        self._next_producer_id = base.next_producer_id
        self._partition_count = base.partition_count
        self._own: dict[bytes, TopicImage] = {}
        """Topics made or copied by this builder, by id: these may be changed in place."""
        self._created: set[bytes] = set()

    def replay(self, record: Message) -> None:
        replay = _REPLAYS.get(type(record).__name__)
        if replay is None:
            raise UnreadableMetadata(f"metadata record {type(record).__name__} is not supported")
        replay(self, record)

    def finish(self, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        """`offset` is that of the last record replayed."""
        base = self._base
        delta = self._delta
        delta.topics_created = [self._own[topic_id] for topic_id in self._own if topic_id in self._created]
        image = MetadataImage(
            cluster_id=base.cluster_id,
            topics=self._topics,
            topics_by_id=self._topics_by_id,
            brokers=self._brokers,
            broker_configs=self._broker_configs,
            group_configs=self._group_configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            controller_id=base.controller_id,
            offset=offset,
            epoch=epoch,
            partition_count=self._partition_count,
        )
        return image, delta

    # -- topics ------------------------------------------------------------------------------------------------------

    def _replay_topic(self, record: TopicRecord) -> None:
        topic_id = bytes(record.topic_id)
        overrides: Mapping[str, str] = {}
        self._put(TopicImage(record.name, topic_id, {}, overrides))
        self._created.add(topic_id)

    def _replay_partition(self, record: PartitionRecord) -> None:
        topic_id = record.topic_id
        topic = self._own.get(topic_id) or self._own_topic(topic_id)
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

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._own_topic(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise UnreadableMetadata(f"change of unknown partition {topic.name}-{record.partition_id}")
        topic.partitions[record.partition_id] = changed_partition(before, record)
        self._note_partition(topic, record.partition_id)

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topics_by_id.get(record.topic_id)
        if topic is None:
            raise UnreadableMetadata("removal of a topic id that is not known")
        self._copy_topics()
        del self._topics_by_id[topic.topic_id]
        del self._topics[topic.name]
        self._own.pop(topic.topic_id, None)
        self._partition_count -= len(topic.partitions)
        if topic.topic_id in self._created:
            self._created.discard(topic.topic_id)
        else:
            self._delta.topics_deleted.append(topic)
            self._delta.partitions_changed.pop(topic.name, None)
            self._delta.topic_configs_changed.discard(topic.name)

    def _note_partition(self, topic: TopicImage, index: int) -> None:
        if topic.topic_id not in self._created:
            self._delta.partitions_changed.setdefault(topic.name, set()).add(index)

    def _own_topic(self, topic_id: bytes) -> TopicImage:
        """The topic in a copy that may be changed."""
        topic = self._own.get(topic_id)
        if topic is None:
            known = self._topics_by_id.get(topic_id)
            if known is None:
                raise UnreadableMetadata("record of a topic id that is not known")
            topic = TopicImage(known.name, known.topic_id, dict(known.partitions), known.config)
            self._put(topic)
        return topic

    def _put(self, topic: TopicImage) -> None:
        self._copy_topics()
        self._topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic
        self._own[topic.topic_id] = topic

    def _copy_topics(self) -> None:
        if self._topics is self._base.topics:
            self._topics = dict(self._base.topics)
            self._topics_by_id = dict(self._base.topics_by_id)

    # -- settings, features, ids ---------------------------------------------------------------------------------------

    def _replay_config(self, record: ConfigRecord) -> None:
        if record.resource_type == RESOURCE_TOPIC:
            known = self._topics.get(record.resource_name)
            if known is None:
                raise UnreadableMetadata(f"setting of unknown topic {record.resource_name}")
            topic = self._own_topic(known.topic_id)
            topic.config = _with_setting(topic.config, record)
            if topic.topic_id not in self._created:
                self._delta.topic_configs_changed.add(topic.name)
        elif record.resource_type == RESOURCE_BROKER:
            self._broker_configs = _with_resource(self._broker_configs, record)
            self._delta.broker_configs_changed.add(record.resource_name)
        elif record.resource_type == RESOURCE_GROUP:
            self._group_configs = _with_resource(self._group_configs, record)
            self._delta.group_configs_changed.add(record.resource_name)

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        self._features = dict(self._features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level
        self._delta.features_changed = True

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id
        self._delta.producer_ids_changed = True

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self._put_broker(
            BrokerImage(
                node_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=bytes(record.incarnation_id),
                endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in record.end_points),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                features=tuple((f.name, f.min_supported_version, f.max_supported_version) for f in record.features),
            )
        )

    def _replay_broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise UnreadableMetadata(f"change of broker {record.broker_id} in an epoch that is not known")
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        self._put_broker(broker._replace(**changes))

    def _replay_fence_broker(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        """What older versions of Kafka wrote instead of a change of the registration."""
        broker = self._brokers.get(record.id)
        if broker is None or broker.epoch != record.epoch:
            raise UnreadableMetadata(f"change of broker {record.id} in an epoch that is not known")
        self._put_broker(broker._replace(fenced=isinstance(record, FenceBrokerRecord)))

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers = {node_id: b for node_id, b in self._brokers.items() if node_id != record.broker_id}
        self._delta.brokers_changed.add(record.broker_id)

    def _put_broker(self, broker: BrokerImage) -> None:
        self._brokers = {**self._brokers, broker.node_id: broker}
        self._delta.brokers_changed.add(broker.node_id)

    def _replay_nothing(self, record: Message) -> None:
        """A record that says nothing to this version."""


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


def _with_setting(texts: Mapping[str, str], record: ConfigRecord) -> Mapping[str, str]:
    changed = dict(texts)
    if record.value is None:
        changed.pop(record.name, None)
    else:
        changed[record.name] = record.value
    return changed


def _with_resource(resources: dict[str, Mapping[str, str]], record: ConfigRecord) -> dict[str, Mapping[str, str]]:
    changed = dict(resources)
    texts = _with_setting(changed.get(record.resource_name, {}), record)
    if texts:
        changed[record.resource_name] = texts
    else:
        changed.pop(record.resource_name, None)
    return changed


_REPLAYS: dict[str, Callable[[ImageBuilder, Any], None]] = {
    "TopicRecord": ImageBuilder._replay_topic,
    "PartitionRecord": ImageBuilder._replay_partition,
    "PartitionChangeRecord": ImageBuilder._replay_partition_change,
    "RemoveTopicRecord": ImageBuilder._replay_remove_topic,
    "ConfigRecord": ImageBuilder._replay_config,
    "FeatureLevelRecord": ImageBuilder._replay_feature_level,
    "ProducerIdsRecord": ImageBuilder._replay_producer_ids,
    "RegisterBrokerRecord": ImageBuilder._replay_register_broker,
    "UnregisterBrokerRecord": ImageBuilder._replay_unregister_broker,
    "BrokerRegistrationChangeRecord": ImageBuilder._replay_broker_registration_change,
    "FenceBrokerRecord": ImageBuilder._replay_fence_broker,
    "UnfenceBrokerRecord": ImageBuilder._replay_fence_broker,
    "NoOpRecord": ImageBuilder._replay_nothing,
    "BeginTransactionRecord": ImageBuilder._replay_nothing,
    "EndTransactionRecord": ImageBuilder._replay_nothing,
    "RegisterControllerRecord": ImageBuilder._replay_nothing,
}

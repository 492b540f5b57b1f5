"""An image as records: replayed on an empty image they make it again. What a snapshot holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.metadata.image import BrokerImage, MetadataImage, PartitionState
from tidelog.metadata.replay import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.generated.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Features first: what follows may be read by them."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield register_broker_record(broker)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, state in topic.partitions.items():
            yield partition_record(topic.topic_id, index, state)
        yield from _config_records(RESOURCE_TOPIC, topic.name, topic.config)
    for node_id, texts in image.broker_configs.items():
        yield from _config_records(RESOURCE_BROKER, node_id, texts)
    for group, texts in image.group_configs.items():
        yield from _config_records(RESOURCE_GROUP, group, texts)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=image.controller_id, broker_epoch=-1, next_producer_id=image.next_producer_id)


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


def register_broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(name=e.name, host=e.host, port=e.port) for e in broker.endpoints],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


def _config_records(resource_type: int, name: str, texts: Mapping[str, str]) -> Iterator[ConfigRecord]:
    for key, value in texts.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)

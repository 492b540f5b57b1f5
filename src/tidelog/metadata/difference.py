"""What changed between two whole images: needed when a node takes over a snapshot instead of the records behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage

K = TypeVar("K")
V = TypeVar("V")


def image_difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """The delta that a node following `before` needs to be at `after`."""
    delta = MetadataDelta()
    delta.topics_deleted = [topic for key, topic in before.topics_by_id.items() if key not in after.topics_by_id]
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is None:
            delta.topics_created.append(topic)
            continue
        changed = _changed(known.partitions, topic.partitions)
        if changed:
            delta.partitions_changed[topic.name] = changed
        if known.config != topic.config:
            delta.topic_configs_changed.add(topic.name)
    delta.brokers_changed = _changed(before.brokers, after.brokers)
    delta.broker_configs_changed = _changed(before.broker_configs, after.broker_configs)
    delta.group_configs_changed = _changed(before.group_configs, after.group_configs)
    delta.features_changed = before.features != after.features
    delta.producer_ids_changed = before.next_producer_id != after.next_producer_id
    return delta


def _changed(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    return {key for key in (*before, *after) if before.get(key) != after.get(key)}

"""Topics remember the replicas that a drain took from them, until they have all of them again.

A reassignment that leaves a partition with fewer replicas, and takes one from a drained (cordoned) node, is the work of
a drain: the same decision writes what the topic had. The decision that gives the last partition its replicas back
forgets it. See `tidelog.config.lowered` for where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.config.lowered import LOWERED, Lowered, lowered_of
from tidelog.metadata.configs import RESOURCE_TOPIC
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.config_record import ConfigRecord

Targets = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas that partitions will have when their reassignments are done."""


def remember_lowered(image: MetadataImage, targets: Targets) -> list[ConfigRecord]:
    """What topics must remember or may forget when these partitions are reassigned."""
    by_topic: dict[str, dict[int, tuple[int, ...]]] = {}
    for partition, replicas in targets.items():
        by_topic.setdefault(partition.topic, {})[partition.partition] = replicas
    records = []
    for name, changed in by_topic.items():
        topic = image.topics[name]
        before = lowered_of(topic.config)
        after = _lowered_after(image, topic, changed, before)
        if after != before:
            records.append(
                ConfigRecord(
                    resource_type=RESOURCE_TOPIC,
                    resource_name=name,
                    name=LOWERED,
                    value=None if after is None else after.text(),
                )
            )
    return records


def _lowered_after(
    image: MetadataImage, topic: TopicImage, changed: Mapping[int, tuple[int, ...]], before: Lowered | None
) -> Lowered | None:
    factor = 0 if before is None else before.factor
    nodes = set() if before is None else set(before.nodes)
    for index, target in changed.items():
        state = topic.partitions[index]
        had = [node_id for node_id in state.replicas if node_id not in state.adding_replicas]
        drained = [node_id for node_id in had if node_id not in target and image.is_cordoned(node_id)]
        if drained and len(target) < len(had):
            factor = max(factor, len(had))
            nodes.update(drained)
    counts = (
        len(changed[index]) if index in changed else len(_target(state)) for index, state in topic.partitions.items()
    )
    return Lowered(factor, tuple(sorted(nodes))) if nodes and min(counts) < factor else None


def _target(state: PartitionState) -> list[int]:
    return [node_id for node_id in state.replicas if node_id not in state.removing_replicas]


def lowered_topics(image: MetadataImage) -> Iterable[tuple[str, Lowered]]:
    for topic in image.topics.values():
        lowered = lowered_of(topic.config)
        if lowered is not None:
            yield topic.name, lowered

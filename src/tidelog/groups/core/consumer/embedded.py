"""The consumer protocol that classic members embed in JoinGroup and SyncGroup: subscriptions and assignments.

A version of two bytes, then the message. A version this node does not know has what the known ones have in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from tidelog.groups.core.consumer.records import OwnedPartitions, Partitions
from tidelog.metadata.image import MetadataImage

_VERSION = Struct(">h")


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    """Ascending."""
    owned: Sequence[tuple[str, Sequence[int]]]
    rack_id: str | None


def decode_subscription(metadata: bytes) -> EmbeddedSubscription:
    """Raises ValueError for other bytes."""
    from tidelog.protocol.errors import MalformedMessage
    from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription as Subscription

    version = _decode_version(metadata)
    try:
        decoded, _ = Subscription.decode(metadata, 2, min(version, Subscription.MAX_VERSION))
    except MalformedMessage as error:
        raise ValueError(str(error)) from error
    owned = [(topic.topic, topic.partitions) for topic in decoded.owned_partitions]
    return EmbeddedSubscription(version, tuple(sorted(set(decoded.topics))), owned, decoded.rack_id)


def decode_assignment(assignment: bytes, image: MetadataImage) -> tuple[Partitions, bool]:
    """The partitions of topics that exist, and whether an assignor added something of its own for the member.

    Raises ValueError when the bytes are no assignment; none at all is an empty one.
    """
    from tidelog.protocol.errors import MalformedMessage
    from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment as Assignment

    if not assignment:
        return {}, False
    version = _decode_version(assignment)
    try:
        decoded, _ = Assignment.decode(assignment, 2, min(version, Assignment.MAX_VERSION))
    except MalformedMessage as error:
        raise ValueError(str(error)) from error
    partitions = by_topic_id([(topic.topic, topic.partitions) for topic in decoded.assigned_partitions], image)
    return partitions, bool(decoded.user_data)


def encode_assignment(owned: OwnedPartitions, version: int, image: MetadataImage) -> bytes:
    """For a member whose subscription has `version`; topics that are gone cannot be named any more."""
    from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment as Assignment
    from tidelog.protocol.generated.consumer_protocol_assignment import TopicPartition

    version = min(version, Assignment.MAX_VERSION)
    assigned = [
        TopicPartition(topic=topic.name, partitions=sorted(partitions))
        for topic_id, partitions in owned.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    return _VERSION.pack(version) + Assignment(assigned_partitions=assigned).encode(version)


def by_topic_id(named: Sequence[tuple[str, Sequence[int]]], image: MetadataImage) -> Partitions:
    return {
        image.topics[name].topic_id: tuple(sorted(set(partitions)))
        for name, partitions in named
        if name in image.topics and partitions
    }


def decode_version(metadata: bytes) -> int:
    """Of a subscription; the oldest for bytes that are none, since a protocol's metadata may be of another kind."""
    try:
        return _decode_version(metadata)
    except ValueError:
        return 0


def _decode_version(data: bytes) -> int:
    if len(data) < 2:
        raise ValueError("too short for a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ValueError(f"version {version}")
    return version

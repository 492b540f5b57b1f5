"""What members of a consumer group say to one another through the coordinator, in the bytes of Kafka's clients.

With these bytes a group has members from this door and from Kafka's clients alike, either may assign, and Kafka's tools
show who has what.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Assignment = dict[str, list[int]]
    """Partitions by topic."""

PROTOCOL_TYPE: Final = "consumer"
RANGE: Final = "range"
ROUND_ROBIN: Final = "roundrobin"
VERSION: Final = 0
"""All that is said here every client understands."""

_VERSION: Final = Struct(">h")


def encode_subscription(topics: Iterable[str]) -> bytes:
    return _VERSION.pack(VERSION) + ConsumerProtocolSubscription(topics=sorted(set(topics))).encode(VERSION)


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """Nothing for bytes of another protocol: such a member gets no partitions from here."""
    try:
        version = _version_of(metadata, ConsumerProtocolSubscription.MAX_VERSION)
        decoded, _ = ConsumerProtocolSubscription.decode(metadata, _VERSION.size, version)
    except MalformedMessage:
        return ()
    return tuple(sorted(set(decoded.topics)))


def encode_assignment(assignment: Mapping[str, Sequence[int]]) -> bytes:
    assigned = [TopicPartition(topic=topic, partitions=sorted(assignment[topic])) for topic in sorted(assignment)]
    return _VERSION.pack(VERSION) + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(VERSION)


def decode_assignment(data: bytes) -> Assignment:
    """Nothing for a member that got nothing. Raises MalformedMessage."""
    if not data:
        return {}
    version = _version_of(data, ConsumerProtocolAssignment.MAX_VERSION)
    decoded, _ = ConsumerProtocolAssignment.decode(data, _VERSION.size, version)
    return {each.topic: list(each.partitions) for each in decoded.assigned_partitions}


def _version_of(data: bytes, version_max: int) -> int:
    """What to read the bytes as: versions that are not known begin like the newest that is."""
    if len(data) < _VERSION.size:
        raise MalformedMessage("bytes of the consumer protocol without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessage(f"version {version} of the consumer protocol")
    return min(version, version_max)

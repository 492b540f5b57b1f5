"""The identifiers everything else is written in.

Topic ids travel, are hashed and compared as their 16 raw bytes: a `uuid.UUID` per fetched partition would cost
more than the rest of the lookup.
"""

import base64
from typing import Final, NamedTuple, NewType

NodeId = NewType("NodeId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
TopicId = NewType("TopicId", bytes)
"""Exactly 16 bytes; ZERO_TOPIC_ID means "not given"."""

ZERO_TOPIC_ID: Final = TopicId(bytes(16))
NO_NODE: Final = NodeId(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
KAFKA_PRODUCER_ID_MAX: Final = 2**62 - 1
"""InitProducerId gives none above. Those belong to clients that choose their ids themselves, and their records are
numbered by another rule: `storage.producer_state.check_ascending`."""
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def encode_topic_id(topic_id: bytes) -> str:
    """The URL-safe base64 form Kafka prints and stores (22 characters, no padding)."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def decode_topic_id(text: str) -> TopicId:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a topic id: it must be 16 bytes in URL-safe base64")
    return TopicId(raw)

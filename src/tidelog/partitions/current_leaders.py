"""The leaders of partitions that this node does not lead, named in the refusal (KIP-951), so that the client can go
there at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.metadata.image import NO_LEADER, MetadataImage
from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.protocol.wire import NodeEndpoint

LEADER_IS_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

TopicKey = str | bytes


def leaders_elsewhere(
    image: MetadataImage, partitions: Iterable[tuple[TopicKey, int]]
) -> dict[tuple[TopicKey, int], tuple[int, int]]:
    """Node id and leader epoch for each that has a leader."""
    found: dict[tuple[TopicKey, int], tuple[int, int]] = {}
    for key, index in partitions:
        topic = image.topics.get(key) if isinstance(key, str) else image.topics_by_id.get(key)
        state = None if topic is None else topic.partitions.get(index)
        if state is not None and state.leader != NO_LEADER:
            found[key, index] = (state.leader, state.leader_epoch)
    return found


def leader_endpoints(
    image: MetadataImage, leaders: dict[tuple[TopicKey, int], tuple[int, int]], listener_name: str
) -> list[NodeEndpoint]:
    """Where these leaders are, for a client of this listener."""
    endpoints: list[NodeEndpoint] = []
    for node_id in sorted({leader for leader, _ in leaders.values()}):
        broker = image.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(listener_name)
        if broker is not None and endpoint is not None:
            endpoints.append((node_id, endpoint.host, endpoint.port, broker.rack))
    return endpoints

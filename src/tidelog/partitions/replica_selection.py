"""Which replica a consumer had better read from (KIP-392): one in its own rack that has what it asks for."""

from __future__ import annotations

from tidelog.config.broker import BrokerConfig
from tidelog.metadata.image import MetadataImage
from tidelog.partitions.partition import Partition

RACK_AWARE = ("rack-aware", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
"""Values of `replica.selector.class` that turn it on; Kafka's class name is taken for what it means."""


def preferred_read_replica(
    partition: Partition, rack: str, offset: int, config: BrokerConfig, image: MetadataImage
) -> int | None:
    """A follower in the consumer's rack, the one that is furthest; None when the leader itself is the right one."""
    if config.replica_selector_class not in RACK_AWARE or not partition.is_leader:
        return None
    leader = partition.leader
    own = image.brokers.get(leader.node_id)
    if own is not None and own.rack == rack:
        return None
    nearest: int | None = None
    furthest = -1
    for follower in leader.followers.values():
        broker = image.brokers.get(follower.node_id)
        if broker is None or broker.fenced or broker.rack != rack or follower.node_id not in leader.in_sync:
            continue
        if follower.log_start_offset <= offset <= follower.end_offset and follower.end_offset > furthest:
            nearest, furthest = follower.node_id, follower.end_offset
    return nearest

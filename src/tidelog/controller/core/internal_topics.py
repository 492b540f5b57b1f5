"""How the topics are made that the node keeps its own state in."""

from __future__ import annotations

from tidelog.config.broker import BrokerConfig
from tidelog.config.lowered import LOWERED, Lowered
from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.image import MetadataImage


def internal_topic(name: str, config: BrokerConfig, image: MetadataImage) -> NewTopic | None:
    """None for a topic that is not internal. Never asks for more replicas than there are brokers to take them."""
    if name == "__consumer_offsets":
        count, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == "__transaction_state":
        count, factor = config.transaction_state_log_num_partitions, config.transaction_state_log_replication_factor
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        }
    else:
        return None
    replicas = max(1, min(factor, sum(1 for _ in image.open_brokers())))
    drained = sorted(broker.node_id for broker in image.active_brokers() if image.is_cordoned(broker.node_id))
    wanted = max(replicas, min(factor, sum(1 for _ in image.active_brokers())))
    if replicas < wanted:
        # As if the topic had been there when the nodes were drained: it gets its replicas when they are back.
        configs[LOWERED] = Lowered(wanted, tuple(drained)).text()
    if name == "__transaction_state":
        configs["min.insync.replicas"] = str(min(config.transaction_state_log_min_isr, wanted))
    return NewTopic(name, count, replicas, configs=tuple(configs.items()))

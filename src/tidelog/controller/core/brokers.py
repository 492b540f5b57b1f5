"""Brokers join: registration gives a node its epoch, and a node that crashed starts new leader epochs."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.metadata.features import BOOTSTRAP, SUPPORTED
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage
from tidelog.metadata.image_records import register_broker_record
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.message import Message


def decide_register_broker(
    image: MetadataImage,
    node_id: int,
    endpoints: Sequence[Endpoint],
    *,
    rack: str | None,
    directory_id: bytes,
    incarnation_id: bytes,
) -> Decision[int]:
    """The reply is the broker epoch: the offset of the registration itself, so that a later one is always larger.

    The first broker of a new cluster brings the feature levels with it.
    """
    bootstrap = {} if image.features else BOOTSTRAP
    records: list[Message] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in bootstrap.items()]
    epoch = image.next_offset + len(records)
    broker = BrokerImage(
        node_id=node_id,
        epoch=epoch,
        incarnation_id=incarnation_id,
        endpoints=tuple(endpoints),
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        directories=(directory_id,),
        features=tuple((name, low, high) for name, (low, high) in SUPPORTED.items()),
    )
    records.append(register_broker_record(broker))
    return Decision(records, epoch)


def decide_new_leader_epochs(image: MetadataImage, node_id: int, skip: int) -> Decision[int]:
    """Partitions the node leads get a new leader epoch: it crashed, and what it lost must not be mistaken for what it
    writes from now on. Reads and fetchers see the change of epoch and check where their logs part.

    Goes over the partitions in order, at most one batch at a time; the reply is where to go on, -1 at the end.
    """
    records: list[Message] = []
    seen = 0
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            seen += 1
            if seen <= skip:
                continue
            if state.leader == node_id:
                records.append(PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id))
            if len(records) == RECORDS_PER_DECISION_MAX:
                return Decision(records, seen)
    return Decision(records, -1)

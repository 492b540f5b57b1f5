"""Producer ids: handed out in blocks, each block one record, so that no id is given twice whatever crashes."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.controller.core.decision import Decision
from tidelog.metadata.image import MetadataImage
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1000


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


def decide_producer_id_block(image: MetadataImage, node_id: int) -> Decision[ProducerIdBlock]:
    first = image.next_producer_id
    broker = image.brokers.get(node_id)
    record = ProducerIdsRecord(
        broker_id=node_id,
        broker_epoch=-1 if broker is None else broker.epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Decision([record], ProducerIdBlock(first, BLOCK_SIZE))

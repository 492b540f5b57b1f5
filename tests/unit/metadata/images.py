"""Images for tests, made the way they are made in life: by replaying records."""

from collections.abc import Iterable

from tidelog.metadata.brokers import register_broker_record
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage
from tidelog.protocol.message import Message


def directory_id(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def broker(node_id: int, *, rack: str | None = None, fenced: bool = False, epoch: int = 0) -> BrokerImage:
    return BrokerImage(
        node_id=node_id,
        epoch=epoch,
        incarnation_id=bytes(16),
        endpoints=(Endpoint("PLAINTEXT", f"host{node_id}", 9092),),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(directory_id(node_id),),
        features=(("metadata.version", 7, 30),),
    )


def replayed(image: MetadataImage, records: Iterable[Message]) -> tuple[MetadataImage, MetadataDelta]:
    replayed = list(records)
    delta = MetadataDelta(image, replayed)
    return delta.apply(image.offset + len(replayed), 1), delta


def cluster(*brokers: BrokerImage) -> MetadataImage:
    empty = MetadataImage(cluster_id="test", controller_id=1)
    return replayed(empty, (register_broker_record(b) for b in brokers or (broker(1),)))[0]

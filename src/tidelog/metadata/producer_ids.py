"""The producer ids that were handed out to brokers, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.metadata.sub_image import SubDelta
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.message import Message

NO_BROKER = -1


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    next_producer_id: int = 0
    """The first producer id that was never handed out."""

    def records(self) -> Iterator[Message]:
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=-1, next_producer_id=self.next_producer_id)


class ProducerIdsDelta(SubDelta[ProducerIdsImage]):
    __slots__ = ("_base", "next_producer_id")

    IMAGE = ProducerIdsImage

    def __init__(self, base: ProducerIdsImage) -> None:
        self._base = base
        self.next_producer_id = base.next_producer_id

    def replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def apply(self) -> ProducerIdsImage:
        return self._base if self.is_empty else ProducerIdsImage(self.next_producer_id)

    @property
    def is_empty(self) -> bool:
        return self.next_producer_id == self._base.next_producer_id

    @classmethod
    def between(cls, before: ProducerIdsImage, after: ProducerIdsImage) -> ProducerIdsDelta:
        delta = cls(before)
        delta.next_producer_id = after.next_producer_id
        return delta

    REPLAYS = {ProducerIdsRecord: replay_producer_ids}

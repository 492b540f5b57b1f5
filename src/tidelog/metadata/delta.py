"""What changed between two images, subject by subject. Subscribers handle what is named here and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from tidelog.metadata import table
from tidelog.metadata.brokers import BrokersDelta
from tidelog.metadata.configs import ConfigsDelta
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.sub_image import SubDelta
from tidelog.metadata.topics import TopicsDelta
from tidelog.protocol.message import Message

D = TypeVar("D", bound=SubDelta[Any])


class MetadataDelta:
    """Replays records on top of an image; `apply` is the image after them. The image before stays as it is."""

    __slots__ = ("_base", "_parts")

    def __init__(self, base: MetadataImage, records: Iterable[Message] = ()) -> None:
        self._base = base
        self._parts: dict[type[SubDelta[Any]], SubDelta[Any]] = {}
        """Created when they are first needed: most deltas change one subject."""
        for record in records:
            self.replay(record)

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> MetadataDelta:
        """For a node that follows `before` and takes over `after` as a snapshot, without the records behind it."""
        delta = cls(after)
        for kind in table.SUB_DELTAS:
            delta._parts[kind] = kind.between(before.part(kind.IMAGE), after.part(kind.IMAGE))
        return delta

    def replay(self, record: Message) -> None:
        route = table.ROUTES.get(type(record))
        if route is None:
            name = type(record).__name__
            if name in table.IGNORED:
                return
            raise UnreadableMetadata(f"metadata record {name} is not supported")
        for kind, replay in route:
            replay(self.part(kind), record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """`offset` is that of the last record replayed, `epoch` that of the controller that wrote it."""
        changed = [part.apply() for part in self._parts.values()]
        return self._base.with_parts(changed, offset=offset, epoch=epoch)

    def part(self, kind: type[D]) -> D:
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self._base.part(kind.IMAGE))
        return cast("D", found)

    @property
    def topics(self) -> TopicsDelta:
        return self.part(TopicsDelta)

    @property
    def brokers(self) -> BrokersDelta:
        return self.part(BrokersDelta)

    @property
    def configs(self) -> ConfigsDelta:
        return self.part(ConfigsDelta)

    @property
    def is_empty(self) -> bool:
        return all(part.is_empty for part in self._parts.values())

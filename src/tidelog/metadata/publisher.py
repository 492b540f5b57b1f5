"""Who is told of a new image: subscribers in the order they came, each to its end, before the next image can exist."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage

Subscriber = Callable[[MetadataImage, MetadataDelta], None]
Preparer = Callable[[MetadataImage, MetadataDelta], Awaitable[None]]
"""Does in advance, off the event loop, what a subscriber would otherwise do in its turn; must not fail."""

logger = logging.getLogger("tidelog.metadata")


class MetadataPublisher:
    """`image` is the newest image; it is set before anyone is told."""

    __slots__ = ("_preparers", "_subscribers", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []
        self._preparers: list[Preparer] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def prepare_with(self, preparer: Preparer) -> None:
        self._preparers.append(preparer)

    async def prepare(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Comes before `publish`, for the same image and delta."""
        for preparer in self._preparers:
            await preparer(image, delta)

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """A subscriber that fails is logged: the change is already in the log, and the others must hear of it."""
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(image, delta)
            except Exception:
                logger.exception("a subscriber of the metadata failed at offset %d", image.offset)

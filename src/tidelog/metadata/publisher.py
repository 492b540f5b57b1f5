"""Publishes each new image to subscribers in their order; all of them return before the next image is published."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage

Subscriber = Callable[[MetadataImage, MetadataDelta], None]
Preparer = Callable[[MetadataImage, MetadataDelta], Awaitable[None]]
"""Does slow work of a subscriber in advance and off the event loop. Optional: the subscriber repeats it on failure."""

logger = logging.getLogger("tidelog.metadata")


class MetadataPublisher:
    """`image` is the newest image; it is set before the subscribers are called."""

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
        """A subscriber that fails is logged: the change is in the log already and the other subscribers must see it."""
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(image, delta)
            except Exception:
                logger.exception("a subscriber of the metadata failed at offset %d", image.offset)

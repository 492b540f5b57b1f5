"""Who is told of a new image: subscribers in the order they came, each to its end, before the next image can exist."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage

Subscriber = Callable[[MetadataImage, MetadataDelta], None]

logger = logging.getLogger("tidelog.metadata")


class MetadataPublisher:
    """`image` is the newest image; it is set before anyone is told."""

    __slots__ = ("_subscribers", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """A subscriber that fails is logged: the change is already in the log, and the others must hear of it."""
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(image, delta)
            except Exception:
                logger.exception("a subscriber of the metadata failed at offset %d", image.offset)

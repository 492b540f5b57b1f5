"""What changed between two images, for those who follow them: they look at what is named here and at nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.metadata.image import TopicImage


class MetadataDelta:
    """Topics are named by what they were (deleted) or are now (created, changed). A topic that was deleted and created
    again under its name appears in both; look at the ids."""

    __slots__ = (
        "broker_configs_changed",
        "brokers_changed",
        "features_changed",
        "group_configs_changed",
        "partitions_changed",
        "producer_ids_changed",
        "topic_configs_changed",
        "topics_created",
        "topics_deleted",
    )

    def __init__(self) -> None:
        self.topics_created: list[TopicImage] = []
        self.topics_deleted: list[TopicImage] = []
        self.partitions_changed: dict[str, set[int]] = {}
        """Topics that existed before: the partitions that were added or changed."""
        self.topic_configs_changed: set[str] = set()
        """Topics that existed before and whose overrides changed."""
        self.broker_configs_changed: set[str] = set()
        """Node ids as text, "" for all brokers."""
        self.group_configs_changed: set[str] = set()
        self.brokers_changed: set[int] = set()
        """Registered, changed or gone."""
        self.features_changed = False
        self.producer_ids_changed = False

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, name) for name in self.__slots__)

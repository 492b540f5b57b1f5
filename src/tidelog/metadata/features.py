"""Feature levels: what this version of the node supports, what a new cluster starts with, and what is finalised.

Clients read the finalised levels out of ApiVersions. A level is raised by a record, so that all nodes change over at
the same point of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.sub_image import SubDelta, changed_keys
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.message import Message

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
"""From 1 on there are groups of the consumer protocol."""
TRANSACTION_VERSION = "transaction.version"
"""Level 2: producers that can do so get a new epoch with every transaction (KIP-890)."""
TIDELOG_VERSION = "tidelog.version"
"""Which records nodes may write that an older version of Tidelog cannot replay: see `SubDelta.LEVELS`.

Level 0: all nodes may be of 0.1. Level 1 is a marker and no record needs it: it says that every node knows this
feature, so that a later level can be checked on all of them. Level 2: keys of HTTP sessions (`session_keys.py`).
"""

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (7, 30),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    TIDELOG_VERSION: (0, 2),
}
"""Lowest and highest level by name."""

ONE_WAY = frozenset({METADATA_VERSION, TIDELOG_VERSION})
"""Features that say which records may be in the log. Once raised they stay: such records may already be written."""

BOOTSTRAP: dict[str, int] = {
    METADATA_VERSION: 30,
    GROUP_VERSION: 1,
    TRANSACTION_VERSION: 2,
    TIDELOG_VERSION: 2,
}
"""Levels of a new cluster: the newest there are, as in Kafka. Those of Kafka 4.3, as far as they are supported here."""


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    levels: dict[str, int] = field(default_factory=dict)
    """The finalised level by name. A feature that is absent is at level 0."""

    def records(self) -> Iterator[Message]:
        for name, level in self.levels.items():
            yield FeatureLevelRecord(name=name, feature_level=level)


class FeaturesDelta(SubDelta[FeaturesImage]):
    __slots__ = ("_base", "changed", "levels")

    IMAGE = FeaturesImage

    def __init__(self, base: FeaturesImage) -> None:
        self._base = base
        self.levels = base.levels
        self.changed: set[str] = set()
        """Names of features."""

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        highest = SUPPORTED[record.name][1] if record.name in ONE_WAY else record.feature_level
        if record.feature_level > highest:
            raise UnreadableMetadata(
                f"the cluster is at {record.name} {record.feature_level} and this node supports at most {highest}: "
                "upgrade it"
            )
        self.levels = dict(self.levels)
        if record.feature_level == 0:
            self.levels.pop(record.name, None)
        else:
            self.levels[record.name] = record.feature_level
        self.changed.add(record.name)

    def apply(self) -> FeaturesImage:
        return FeaturesImage(self.levels) if self.changed else self._base

    @property
    def is_empty(self) -> bool:
        return not self.changed

    @classmethod
    def between(cls, before: FeaturesImage, after: FeaturesImage) -> FeaturesDelta:
        delta = cls(after)
        delta.changed = changed_keys(before.levels, after.levels)
        return delta

    REPLAYS = {FeatureLevelRecord: replay_feature_level}

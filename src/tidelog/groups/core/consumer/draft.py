"""The records of one decision, and the group as it will be once they are replayed.

Later parts of a decision build on earlier ones: who joins is assigned partitions, and who is assigned partitions takes
them. They look at a copy that replays each record as it is drafted; the group itself stays as it is.
"""

from __future__ import annotations

from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.records import ConsumerGroupRecord


class Draft:
    __slots__ = ("_is_copy", "group", "records")

    def __init__(self, group: ConsumerGroup, *, is_new: bool = False) -> None:
        """`is_new`: nobody else knows the group yet, so it need not be copied."""
        self.group = group
        self.records: list[ConsumerGroupRecord] = []
        self._is_copy = is_new

    def add(self, record: ConsumerGroupRecord) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.group.replay(record)
        self.records.append(record)

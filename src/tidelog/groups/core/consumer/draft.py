"""The records of one decision, and the group as it will be once they are replayed.

Later parts of a decision build on earlier ones: a member that joins is assigned partitions, and a member that is
assigned partitions takes them. They look at a copy that replays each record as it is drafted; the group itself stays as
it is.
"""

from __future__ import annotations

from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.records import ConsumerGroupRecord


class Draft:
    __slots__ = ("_is_new", "_unshared", "group", "records")

    def __init__(self, group: ConsumerGroup, *, is_new: bool = False) -> None:
        """`is_new`: no other code holds the group yet, so it need not be copied."""
        self.group = group
        self.records: list[ConsumerGroupRecord] = []
        self._is_new = is_new
        self._unshared: set[type] = set()
        """The kinds of records that the copy can take: a group of thousands is not copied whole for each of them."""

    def add(self, record: ConsumerGroupRecord) -> None:
        kind = type(record)
        if not self._is_new and kind not in self._unshared:
            if not self._unshared:
                self.group = self.group.copy()
            self.group.unshare(kind)
            self._unshared.add(kind)
        self.group.replay(record)
        self.records.append(record)

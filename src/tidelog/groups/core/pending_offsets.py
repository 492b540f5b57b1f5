"""Offsets committed in transactions that have not ended: no fetch returns them, but `require_stable` waits for them.

Whatever is said of a partition later in the log wins, in whichever order transactions end: an earlier commit that is
still waiting is dropped when a later one takes effect, or the offset is deleted.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.groups.core.records import OffsetCommitRecord

Key = tuple[str, str, int]
"""Group, topic, partition."""


class PendingOffsets:
    __slots__ = ("_by_group", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, tuple[OffsetCommitRecord, int]]] = {}
        """By producer id and key: the record and where it is in the log."""
        self._by_group: dict[str, dict[tuple[str, int], set[int]]] = {}
        """By group, topic and partition: the producers that have something pending; the keys are those of all of
        `_by_producer`."""

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, record: OffsetCommitRecord, log_offset: int) -> None:
        key = record.key
        self._by_producer.setdefault(producer_id, {})[key] = (record, log_offset)
        self._by_group.setdefault(key[0], {}).setdefault(key[1:], set()).add(producer_id)

    def has(self, key: Key) -> bool:
        by_partition = self._by_group.get(key[0])
        return by_partition is not None and key[1:] in by_partition

    def of_group(self, group_id: str) -> Collection[tuple[str, int]]:
        """Topic and partition of everything that waits."""
        return self._by_group.get(group_id, ())

    def group_ids(self) -> Collection[str]:
        return self._by_group.keys()

    def supersede(self, key: Key, log_offset: int) -> None:
        """A commit or a tombstone at `log_offset` took effect: what was committed before it never will."""
        by_partition = self._by_group.get(key[0])
        if by_partition is None:
            return
        for producer_id in list(by_partition.get(key[1:], ())):
            if self._by_producer[producer_id][key][1] < log_offset:
                self._forget(producer_id, key)

    def end(self, producer_id: int) -> list[tuple[OffsetCommitRecord, int]]:
        """The transaction has ended: hands over what the producer had pending, in the order of the log."""
        ended = sorted(self._by_producer.get(producer_id, {}).values(), key=lambda entry: entry[1])
        for record, _ in ended:
            self._forget(producer_id, record.key)
        return ended

    def snapshot(self) -> dict[int, dict[Key, tuple[OffsetCommitRecord, int]]]:
        """Everything that waits, by producer id; for tests that compare one state with another."""
        return {producer_id: dict(entries) for producer_id, entries in self._by_producer.items()}

    def _forget(self, producer_id: int, key: Key) -> None:
        entries = self._by_producer[producer_id]
        del entries[key]
        if not entries:
            del self._by_producer[producer_id]
        by_partition = self._by_group[key[0]]
        producers = by_partition[key[1:]]
        producers.discard(producer_id)
        if not producers:
            del by_partition[key[1:]]
            if not by_partition:
                del self._by_group[key[0]]

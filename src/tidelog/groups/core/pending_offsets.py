"""Offsets committed in transactions that have not ended: nobody reads them, but `require_stable` waits for them.

Whichever commit of a partition is later in the log wins, whatever the order in which transactions end: an earlier one
that is still waiting is dropped when a later one takes effect.
"""

from __future__ import annotations

from tidelog.groups.core.records import OffsetCommitRecord

Key = tuple[str, str, int]
"""Group, topic, partition."""


class PendingOffsets:
    __slots__ = ("_by_key", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, tuple[OffsetCommitRecord, int]]] = {}
        """By producer id and key: the record and where it is in the log."""
        self._by_key: dict[Key, set[int]] = {}
        """The producers that have something pending; the keys are those of all of `_by_producer`."""

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, record: OffsetCommitRecord, log_offset: int) -> None:
        key = record.key
        self._by_producer.setdefault(producer_id, {})[key] = (record, log_offset)
        self._by_key.setdefault(key, set()).add(producer_id)

    def has(self, key: Key) -> bool:
        return key in self._by_key

    def group_ids(self) -> set[str]:
        return {group_id for group_id, _, _ in self._by_key}

    def supersede(self, key: Key, log_offset: int) -> None:
        """A commit at `log_offset` took effect: what was committed before it never will."""
        for producer_id in list(self._by_key.get(key, ())):
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
        producers = self._by_key[key]
        producers.discard(producer_id)
        if not producers:
            del self._by_key[key]

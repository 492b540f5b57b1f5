"""What the leader of a partition knows about its replicas, and the high watermark that follows from it. Pure.

The high watermark is the smallest end offset among the in-sync replicas: everything below it survives the loss of any
of them but one. A replica reports the end of what it would still have after a crash by its own rules, so with
`tidelog.flush=ack` the leader itself counts only what it has synced. A partition of one replica is no special case.
"""

from __future__ import annotations


class LeaderState:
    __slots__ = ("_end_offsets", "high_watermark", "in_sync", "leader_epoch", "node_id", "replica_count")

    def __init__(
        self, *, node_id: int, leader_epoch: int, in_sync: frozenset[int], replica_count: int, high_watermark: int
    ) -> None:
        assert node_id in in_sync, "a leader is in sync with itself"
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync
        self.replica_count = replica_count
        self.high_watermark = high_watermark
        """Never moves back while this leader epoch lasts."""
        self._end_offsets: dict[int, int] = dict.fromkeys(in_sync, high_watermark)

    def replica_reached(self, node_id: int, end_offset: int) -> bool:
        """A replica holds everything below `end_offset`; returns whether that moved the high watermark."""
        self._end_offsets[node_id] = end_offset
        if len(self.in_sync) == 1:
            candidate = self._end_offsets[self.node_id]
        else:
            candidate = min(self._end_offsets[node] for node in self.in_sync)
        if candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    def has_enough_in_sync(self, min_in_sync: int) -> bool:
        """Whether acks=all may be taken; a topic cannot ask for more replicas than it has."""
        return len(self.in_sync) >= min(min_in_sync, self.replica_count)

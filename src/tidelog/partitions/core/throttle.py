"""How fast replicas that are not in sync yet may copy: a reassignment must not take the network from all others. Pure.

One throttle for all a node sends as a leader, one for all it fetches as a follower. They hold only for replicas that
topics name as throttled and that are not in sync: replication itself is never slowed down.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.config.setting import INT64_MAX

EVERY_REPLICA = "*"


class ReplicationThrottle:
    """A bucket that holds one second's worth. It may be overdrawn by one response, which is then paid back first."""

    __slots__ = ("_left_bytes", "_rate", "_seen_ms")

    def __init__(self) -> None:
        self._rate = INT64_MAX
        self._left_bytes = 0
        self._seen_ms = 0

    def limit(self, bytes_per_second: int, now_ms: int) -> None:
        if bytes_per_second != self._rate:
            self._rate = bytes_per_second
            self._left_bytes = bytes_per_second
            self._seen_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        if self._rate == INT64_MAX:
            return False
        self._refill(now_ms)
        return self._left_bytes <= 0

    def spend(self, byte_count: int, now_ms: int) -> None:
        if self._rate != INT64_MAX:
            self._refill(now_ms)
            self._left_bytes -= byte_count

    def _refill(self, now_ms: int) -> None:
        earned = self._rate * (now_ms - self._seen_ms) // 1000
        if earned > 0:
            self._left_bytes = min(self._rate, self._left_bytes + earned)
            self._seen_ms = now_ms


def is_throttled(replicas: Sequence[str], partition: int, node_id: int) -> bool:
    """Whether a topic's `*.replication.throttled.replicas` names the partition on this node."""
    return EVERY_REPLICA in replicas or f"{partition}:{node_id}" in replicas

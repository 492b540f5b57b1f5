"""Which brokers are alive: when each sent its last heartbeat, and when its session ends. Time is an argument."""

from __future__ import annotations

from collections.abc import Iterable


class BrokerSessions:
    """Held by the active controller only; a new controller begins with a session for every live broker."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._ends_ms: dict[int, float] = {}
        self._heard_ms: dict[int, float] = {}

    def begin(self, node_ids: Iterable[int], now_ms: float) -> None:
        """Every broker that is not fenced gets one session timeout to find the new controller."""
        self._ends_ms = dict.fromkeys(node_ids, now_ms + self._timeout_ms)
        self._heard_ms.clear()

    def heard_from(self, node_id: int, now_ms: float) -> None:
        self._ends_ms[node_id] = now_ms + self._timeout_ms
        self._heard_ms[node_id] = now_ms

    def suspect(self, node_id: int, now_ms: float, grace_ms: float, *, since_ms: float | None = None) -> None:
        """There is a sign that the node is gone, such as a broken connection: shortens its session to this time.

        `since_ms`: when the sign was seen. A heartbeat since then refutes it.
        """
        if since_ms is not None and self._heard_ms.get(node_id, since_ms) > since_ms:
            return
        if node_id in self._ends_ms:
            self._ends_ms[node_id] = min(self._ends_ms[node_id], now_ms + grace_ms)

    def forget(self, node_id: int) -> None:
        self._ends_ms.pop(node_id, None)
        self._heard_ms.pop(node_id, None)

    def is_alive(self, node_id: int, now_ms: float) -> bool:
        return self._ends_ms.get(node_id, now_ms) > now_ms

    def silent(self, now_ms: float) -> list[int]:
        """Brokers whose session is over; each is listed until it is forgotten or sends a heartbeat."""
        return [node_id for node_id, end_ms in self._ends_ms.items() if end_ms <= now_ms]

    def deadline_ms(self) -> float | None:
        """When the next session ends."""
        return min(self._ends_ms.values(), default=None)

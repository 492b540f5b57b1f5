"""Which brokers are alive: who was heard from, and when silence means that a broker is gone. Time is an argument."""

from __future__ import annotations

from collections.abc import Iterable


class BrokerSessions:
    """Held by the active controller alone; a new controller begins with the sessions of everyone it may hear from."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._ends_ms: dict[int, float] = {}
        self._heard_ms: dict[int, float] = {}

    def begin(self, node_ids: Iterable[int], now_ms: float) -> None:
        """Everyone who is not fenced gets one session's time to find the new controller."""
        self._ends_ms = dict.fromkeys(node_ids, now_ms + self._timeout_ms)
        self._heard_ms.clear()

    def heard_from(self, node_id: int, now_ms: float) -> None:
        self._ends_ms[node_id] = now_ms + self._timeout_ms
        self._heard_ms[node_id] = now_ms

    def suspect(self, node_id: int, now_ms: float, grace_ms: float, *, since_ms: float | None = None) -> None:
        """Something speaks against the node, a broken connection say: it has only this long to be heard again.

        `since_ms`: how old that knowledge is. Who was heard later has answered it already.
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
        """Those whose session is over; each is named until it is forgotten or heard from."""
        return [node_id for node_id, end_ms in self._ends_ms.items() if end_ms <= now_ms]

    def deadline_ms(self) -> float | None:
        """When the next session ends."""
        return min(self._ends_ms.values(), default=None)

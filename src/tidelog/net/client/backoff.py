"""When a peer that could not be reached may be tried again. Time and chance are arguments."""

from __future__ import annotations

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 1.0


class Backoff:
    """Each failure doubles the delay; an answer ends it."""

    __slots__ = ("_delay_s", "_not_before_s", "reason")

    def __init__(self) -> None:
        self._delay_s = 0.0
        self._not_before_s = 0.0
        self.reason = ""
        """Why the peer could not be reached the last time."""

    @property
    def has_failed(self) -> bool:
        """Whether there was a failure and no answer since."""
        return self._delay_s > 0

    def failed(self, reason: str, now_s: float, chance: float) -> None:
        """Half of the delay is chance (0 <= chance < 1): nodes that lost the same peer do not come back in step."""
        self._delay_s = min(BACKOFF_MAX_S, max(BACKOFF_FIRST_S, 2 * self._delay_s))
        self._not_before_s = now_s + self._delay_s * (0.5 + chance / 2)
        self.reason = reason

    def answered(self) -> None:
        """The peer works. A delay that runs already stays."""
        self._delay_s = 0.0

    def forget(self) -> None:
        """The peer is at another address, which may be tried at once."""
        self._delay_s = self._not_before_s = 0.0

    def is_resting(self, now_s: float) -> bool:
        return now_s < self._not_before_s

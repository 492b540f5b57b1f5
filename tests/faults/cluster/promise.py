"""How soon writes go on after a fault, judged on a machine that may be busy with something else.

The clocks of clients and of nodes run on while a machine does not let them run. So a fault that was late is repeated,
and what is late again is a broken promise: a product that is late by itself is late every time.
"""

from __future__ import annotations

GOES_ON_SECONDS_MAX = 3.0
"""With the settings as they are by default, after every single kill. Up to two of them are librdkafka's: it looks once
a second for leaders it lost, and needs two looks when the metadata does not list the broker any more."""
LATE_MAX = 1


class Promise:
    def __init__(self, *, late_max: int = LATE_MAX) -> None:
        """`late_max`: how many faults may be late before it is broken."""
        self._late_max = late_max
        self._took_s: list[float] = []

    def is_kept(self, took_s: float) -> bool:
        """Whether this time was in time; AssertionError when too many were not."""
        self._took_s.append(took_s)
        late = [each for each in self._took_s if each > GOES_ON_SECONDS_MAX]
        assert len(late) <= self._late_max, f"writes went on after {self._took_s} s"
        return took_s <= GOES_ON_SECONDS_MAX

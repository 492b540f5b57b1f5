"""When a streaming query runs (pure).

A trigger is parsed once, where it comes in: here the `trigger=` of the public functions, in `spec/read.py` that of a
pipeline file. From there on it is a `Trigger`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from tidelog.pipelines.errors import PipelineError

TriggerKind = Literal["available-now", "interval", "continuous"]

_UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_INTERVAL = re.compile(rf"(continuous )?(\d+) ({'|'.join(_UNITS_MS)})s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    kind: TriggerKind
    interval_ms: int = 0

    def spark_arguments(self) -> dict[str, Any]:
        """The arguments of `DataStreamWriter.trigger`."""
        match self.kind:
            case "available-now":
                return {"availableNow": True}
            case "continuous":
                return {"continuous": f"{self.interval_ms} milliseconds"}
            case "interval":
                return {"processingTime": f"{self.interval_ms} milliseconds"}


def as_trigger(trigger: str | Trigger | None) -> Trigger | None:
    """None stands for as fast as possible. Raises PipelineError for other words."""
    if trigger is None or isinstance(trigger, Trigger):
        return trigger
    if trigger in ("available-now", "once"):
        return Trigger(kind="available-now")
    found = _INTERVAL.fullmatch(trigger)
    if found is None:
        raise PipelineError(
            f"trigger={trigger!r}: use 'available-now', an interval like '10 seconds', or 'continuous 1 second'"
        )
    continuous, count, unit = found.groups()
    return Trigger(kind="continuous" if continuous else "interval", interval_ms=int(count) * _UNITS_MS[unit])

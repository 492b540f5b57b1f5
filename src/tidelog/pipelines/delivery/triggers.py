"""When a streaming query runs: the words of the interface to those of Spark (pure)."""

from __future__ import annotations

import re
from typing import Any

from tidelog.pipelines.errors import PipelineError

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")
_CONTINUOUS = "continuous "


def trigger_arguments(trigger: str | None) -> dict[str, Any]:
    """The arguments of `DataStreamWriter.trigger`; none for as fast as possible."""
    if trigger is None:
        return {}
    if trigger in ("available-now", "once"):
        return {"availableNow": True}
    continuous = trigger.startswith(_CONTINUOUS)
    interval = trigger.removeprefix(_CONTINUOUS)
    if not _INTERVAL.fullmatch(interval):
        raise PipelineError(
            f"trigger={trigger!r}: use 'available-now', an interval like '10 seconds', or 'continuous 1 second'"
        )
    return {"continuous" if continuous else "processingTime": interval}

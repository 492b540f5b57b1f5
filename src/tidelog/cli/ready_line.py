"""The one line on standard output that says a node or a cluster is ready: for people, or in the form of the log."""

from __future__ import annotations

import time
from typing import Any


def ready_line(text: str, log_format: str, **fields: Any) -> str:
    """`text`, or with log lines in JSON an object with their keys, so that one reader can take both."""
    if log_format != "json":
        return text
    import json

    now_s = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))
    line = {"time": f"{stamp}.{int(now_s % 1 * 1000):03d}Z", "level": "info", "logger": "tidelog.serve"}
    return json.dumps({**line, "event": "ready", **fields}, default=str)

"""Starts Spark's JVM and passes on what it prints, but for the warning that every Java gives about Spark's modules.

PySpark starts a JVM of its own unless it is handed one. Here its standard error goes through a pipe: what matters is
passed on line by line, and the last lines are at hand when it does not start.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.conf import SparkConf

NOISE = b"WARNING: Using incubator modules:"
"""Spark asks for a module of vector instructions; nobody can do anything about what Java says to that."""
_LINES_KEPT = 5


def start_jvm(conf: SparkConf) -> Any:
    """The gateway to a new JVM with these settings; PipelineError with the last thing it said when it ended at once."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    reader, writer = os.pipe()
    last: deque[str] = deque(maxlen=_LINES_KEPT)
    relay = threading.Thread(target=_relay, args=(reader, last), name="what the JVM prints", daemon=True)
    relay.start()
    try:
        return launch_gateway(conf, {"stderr": writer})
    except PySparkRuntimeError as error:
        os.close(writer)
        writer = -1
        relay.join(5)
        raise PipelineError(f"Spark's JVM ended at its start: {' / '.join(last) or error}") from None
    finally:
        if writer >= 0:
            os.close(writer)


def _relay(reader: int, last: deque[str]) -> None:
    """From the pipe to standard error until the JVM ends."""
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if line.startswith(NOISE):
                continue
            last.append(line.decode(errors="replace").strip())
            os.write(2, line)

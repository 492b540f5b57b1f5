"""Starts Spark's JVM and passes on what it prints, but for the warning that every Java gives about Spark's modules.

PySpark starts a JVM of its own unless it is handed one. Here its output goes through pipes: lines are held until the
JVM is there, so that one which does not start ends in a single line, and are passed on from then on.
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
"""Spark asks for a module of vector instructions; what Java says to that is no use to the user."""
_LINES_HELD_MAX = 100
_LINES_TOLD_MAX = 3


class _Output:
    """What a JVM prints on one of its outputs, and the file descriptor it would have printed to."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._held: deque[bytes] | None = deque(maxlen=_LINES_HELD_MAX)
        reader, self.writer = os.pipe()
        self._thread = threading.Thread(target=self._relay, args=(reader,), name="what the JVM prints", daemon=True)
        self._thread.start()

    def _relay(self, reader: int) -> None:
        """Takes lines until the JVM ends."""
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                if line.startswith(NOISE):
                    continue
                with self._lock:
                    if self._held is None:
                        os.write(self._target, line)
                    else:
                        self._held.append(line)

    def release(self) -> None:
        """The JVM is there: what it said so far, and whatever comes, is passed on."""
        with self._lock:
            held, self._held = self._held or (), None
            for line in held:
                os.write(self._target, line)

    def last_lines(self) -> list[str]:
        """What a JVM said that has ended."""
        self._thread.join(5)
        with self._lock:
            lines = [line.decode(errors="replace").strip() for line in self._held or ()]
        return [line for line in lines if line][-_LINES_TOLD_MAX:]


def start_jvm(conf: SparkConf) -> Any:
    """The gateway to a new JVM with these settings; PipelineError with its last words when it ended at once."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    outputs = (_Output(1), _Output(2))
    reason = ""
    try:
        gateway = launch_gateway(conf, {"stdout": outputs[0].writer, "stderr": outputs[1].writer})
    except PySparkRuntimeError as error:
        reason = str(error)
    finally:
        for output in outputs:
            os.close(output.writer)
    if reason:
        words = [line for output in outputs for line in output.last_lines()]
        raise PipelineError(f"Spark's JVM ended at its start: {' / '.join(words) or reason}")
    for output in outputs:
        output.release()
    return gateway

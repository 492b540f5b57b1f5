"""Signals end a command that has Spark within two seconds, whatever it is at, with nothing left behind or said."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.cli.command import Command

pytest.importorskip("pyspark")


@pytest.mark.parametrize(
    ("delay_s", "number", "code"), [(0.8, signal.SIGTERM, 143), (2.5, signal.SIGINT, 130), (6.0, signal.SIGINT, 130)]
)
def test_a_demo_ends_at_a_signal(tidelog: Command, tmp_path: Path, delay_s: float, number: int, code: int) -> None:
    process = tidelog.start("demo", "--data", str(tmp_path / "demo"), "--records", "20000")
    try:
        time.sleep(delay_s)  # Any moment must do: Python, the node or the JVM may be starting.
        began = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        took = time.monotonic() - began
    finally:
        process.kill()
    assert (process.returncode, err) == (code, b"")
    assert took < 3

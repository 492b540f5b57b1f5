"""Ctrl-C while a local cluster starts: it ends at once, and not when the last node is ready or given up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.command import TIDELOG
from tests.waiting import wait_until

END_SECONDS_MAX = 5.0
"""A node that is not ready in a minute is given up; this is far less, and enough to stop nodes on a busy machine."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_all_nodes_are_ready(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    # Node 2 joins a cluster that is not there: it waits, and is never ready.
    given = (
        "--nodes",
        "2",
        "--data",
        str(data),
        "--listen",
        "127.0.0.1:0",
        "-o",
        "controller.quorum.voters=1@127.0.0.1:1",
    )
    process = subprocess.Popen(
        [*TIDELOG, "cluster", "start", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    )
    try:
        wait_until(lambda: (data / "node-2" / ".lock").exists(), "node 2 to run")
        sent_s = time.monotonic()
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
        took_s = time.monotonic() - sent_s
    finally:
        process.kill()
    assert took_s < END_SECONDS_MAX
    assert process.returncode == 0, errors
    assert out == b""
    assert b"Traceback" not in errors

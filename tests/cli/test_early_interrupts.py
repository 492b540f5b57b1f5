"""Ctrl-C while Python still imports the command: an end without a traceback, like any other Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STOP_AT_IMPORT = """
import os, signal, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STOP_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stop())
sys.argv = ["tidelog", "config", "explain", "num.partitions"]
from tidelog.cli.script import main
sys.exit(main())
"""
"""The script as pip writes it, and a signal the moment a module is imported."""


@pytest.mark.parametrize("module", ["tidelog.cli.main", "argparse", "tidelog.cli.signals", "tidelog.cli.config"])
def test_an_interrupt_while_modules_are_imported(module: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOP_AT_IMPORT],
        env={**os.environ, "STOP_AT": module},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (-signal.SIGINT, 130), done
    assert done.stderr == b""
    assert done.stdout == b""


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """A shell without job control starts commands in the background like this."""
    done = subprocess.run(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + STOP_AT_IMPORT],
        env={**os.environ, "STOP_AT": "argparse"},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    assert b"num.partitions" in done.stdout

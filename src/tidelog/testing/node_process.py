"""Runs `tidelog` in a process that ends together with the test process that started it.

    python -m tidelog.testing.node_process PARENT_PID serve --data ...

On Linux the kernel ends it (SIGKILL), also while it is paused. Elsewhere it looks for its parent now and then.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5


def end_with_parent(parent_pid: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent_pid,), daemon=True).start()
    if os.getppid() != parent_pid:
        os._exit(1)


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    end_with_parent(int(sys.argv.pop(1)))
    # The layer of the commands is above this one: it is run as a program, not imported.
    runpy.run_module("tidelog.cli.main", run_name="__main__", alter_sys=True)

"""SIGTERM as an end in good order, for commands that leave something behind if they are just killed."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType


def unwind_on_sigterm() -> None:
    """From now on SIGTERM unwinds the command as Ctrl-C does, so that its `finally` blocks run."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    # The one that asked may ask again; the end is under way.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)

"""Shows what the benchmark is doing."""

from __future__ import annotations

import sys
import time


def say(text: str) -> None:
    """On standard error: standard output is for the result."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

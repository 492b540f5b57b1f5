"""Which event loop a node runs on: uvloop where it can be had, asyncio's own otherwise (`tidelog.loop`)."""

from __future__ import annotations

import asyncio

from tidelog.config.setting import ConfigError


def new_event_loop(kind: str = "auto") -> asyncio.AbstractEventLoop:
    """`auto`, `uvloop` or `asyncio`; usable as the loop factory of an `asyncio.Runner`."""
    if kind != "asyncio":
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise ConfigError("tidelog.loop: uvloop is not installed") from None
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()

"""Tests may be coroutine functions: each runs on an event loop of its own, the kind a node uses.

Those marked `anyio` are left to its plugin, which runs them on the loop of their asynchronous fixtures.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tidelog.node.event_loop import new_event_loop

SCENARIO_SECONDS_MAX = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function) or pyfuncitem.get_closest_marker("anyio") is not None:
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    with asyncio.Runner(loop_factory=lambda: new_event_loop("auto")) as runner:
        runner.run(asyncio.wait_for(function(**arguments), SCENARIO_SECONDS_MAX))
    return True

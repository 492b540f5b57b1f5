import asyncio
import sys

import pytest

from tidelog.config.setting import ConfigError
from tidelog.node.event_loop import new_event_loop


def test_asyncio_on_request() -> None:
    loop = new_event_loop("asyncio")
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()


def test_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    for kind in ("auto", "uvloop"):
        loop = new_event_loop(kind)
        assert isinstance(loop, uvloop.Loop)
        loop.close()


def test_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop("auto")
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
    with pytest.raises(ConfigError, match=r"^tidelog\.loop: uvloop is not installed$"):
        new_event_loop("uvloop")

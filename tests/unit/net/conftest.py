import pytest
from tests.unit.net.serving import CHOSEN


@pytest.fixture(params=["uvloop", "asyncio"])
def loop_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scenario runs on both event loops: nothing may depend on which it is."""
    monkeypatch.setitem(CHOSEN, "loop", request.param)

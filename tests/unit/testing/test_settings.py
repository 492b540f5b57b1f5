import pytest

from tidelog.testing.broker import AsyncBroker, Broker


@pytest.mark.parametrize(
    ("given", "text"),
    [(3, "3"), (True, "true"), (False, "false"), ("x", "x"), (["a", "b"], "a,b"), (("a",), "a"), (0.5, "0.5")],
)
def test_settings_may_be_python_values(given: object, text: str) -> None:
    assert AsyncBroker({"name": given}).overrides == {"name": text}


def test_nothing_is_known_before_the_start() -> None:
    broker = Broker()
    for ask in (lambda: broker.port, lambda: broker.bootstrap_servers, lambda: broker.data, lambda: broker.node):
        with pytest.raises(RuntimeError, match=r"not (started|running)"):
            ask()
    assert not broker.is_running
    assert Broker(port=1234).bootstrap_servers == "127.0.0.1:1234"

"""What a client says when it creates a consumer instance."""

from __future__ import annotations

from typing import Any, Final

from tidelog.gateways.consuming import Reset
from tidelog.gateways.http.proxy.errors import INVALID_CONSUMER_CONFIG, ProxyError
from tidelog.gateways.http.proxy.formats import BINARY_FORMAT, FORMATS, Format
from tidelog.model import limits
from tidelog.model.value import Value

TIMEOUT_MS_MAX: Final = 300_000
NAME_LENGTH_MAX: Final = 249
_RESETS: Final = {each.value: each for each in Reset}
_BOOLEANS: Final = {"true": True, "false": False}


class ConsumerSettings(Value):
    name: str | None = None
    """None: the node chooses one."""
    form: Format = BINARY_FORMAT
    reset: Reset = Reset.LATEST
    commits_by_itself: bool = True
    """Whether it commits what it has handed out, from time to time and when it ends."""
    min_bytes: int = 1
    """How much is waited for."""
    timeout_ms: int = 1_000
    """How long a request for records waits that does not say it."""


def read_settings(body: Any) -> ConsumerSettings:
    """Raises ProxyError for what no consumer can have."""
    if not isinstance(body, dict):
        raise _invalid('The body must be an object such as {"format": "json", "auto.offset.reset": "earliest"}')
    name = body.get("name")
    if name is not None and (not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not _is_plain(name)):
        raise _invalid(f"name must be 1 to {NAME_LENGTH_MAX} printable ASCII characters without a slash")
    min_bytes = _integer(body, "fetch.min.bytes", 1, range(-1, limits.HTTP_FETCH_BYTES_MAX + 1))
    return ConsumerSettings(
        name=name,
        form=_choice(body, "format", FORMATS, BINARY_FORMAT),
        reset=_choice(body, "auto.offset.reset", _RESETS, Reset.LATEST),
        commits_by_itself=_boolean(body, "auto.commit.enable", default=True),
        min_bytes=max(1, min_bytes),
        timeout_ms=_integer(body, "consumer.request.timeout.ms", 1_000, range(TIMEOUT_MS_MAX + 1)),
    )


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable() and "/" not in name and name not in (".", "..")


def _choice(body: dict[str, Any], key: str, choices: dict[str, Any], default: Any) -> Any:
    said = body.get(key)
    if said is None:
        return default
    if not isinstance(said, str) or said.lower() not in choices:
        raise _invalid(f"{key} must be one of {', '.join(choices)}")
    return choices[said.lower()]


def _boolean(body: dict[str, Any], key: str, *, default: bool) -> bool:
    said = body.get(key)
    if said is None or isinstance(said, bool):
        return default if said is None else said
    if not isinstance(said, str) or said.lower() not in _BOOLEANS:
        raise _invalid(f"{key} must be true or false")
    return _BOOLEANS[said.lower()]


def _integer(body: dict[str, Any], key: str, default: int, allowed: range) -> int:
    """Clients send numbers as text, too."""
    said = body.get(key)
    if said is None:
        return default
    number: int | None = None
    if isinstance(said, int) and not isinstance(said, bool):
        number = said
    elif isinstance(said, str) and len(said) <= 20 and said.isascii() and said.removeprefix("-").isdigit():
        number = int(said)
    if number is None or number not in allowed:
        raise _invalid(f"{key} must be between {allowed.start} and {allowed.stop - 1}")
    return number


def _invalid(message: str) -> ProxyError:
    return ProxyError(INVALID_CONSUMER_CONFIG, f"{message}.")

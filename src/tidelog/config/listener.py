"""Addresses: `NAME://host:port`, or plain `host:port` for the listener named PLAINTEXT."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_LISTENER_NAME = "PLAINTEXT"
GATEWAY_NAMES = frozenset({"HTTP", "GRPC"})
"""Names under which the cluster knows the doors that are no Kafka listeners."""


class Listener(NamedTuple):
    name: str
    host: str
    """Without the brackets of an IPv6 address; empty means every interface (bound) or "find out" (advertised)."""
    port: int
    """0 means any free port."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; ValueError says in words what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address: host:port is expected")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not an address: an IPv6 address stands in brackets")
    if any(character.isspace() or character == "/" for character in host):
        raise ValueError(f"{text!r} is not an address: host:port is expected")
    return host, int(port)


def parse_listener(text: str) -> Listener:
    name, separator, address = text.partition("://")
    if not separator:
        return Listener(DEFAULT_LISTENER_NAME, *parse_address(text))
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise ValueError(f"{text!r} is not a listener: NAME://host:port is expected")
    return Listener(name.upper(), *parse_address(address))

"""Which node is asked: the session's own for reads, and for writes the one that is known to lead. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.client.bounds import LEADERS_MAX

PORT: Final = 80


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`, or the beginning of a URL. Raises ValueError."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{text!r} is not the address of an HTTP door: host:port or http://host:port")
    return Address(parts.hostname, parts.port or PORT)


def order(session_id: str, addresses: Sequence[Address]) -> list[Address]:
    """By rendezvous: sessions spread over the nodes, and when a node goes only its own sessions move."""
    return sorted(addresses, key=lambda address: sha256(f"{session_id} {address}".encode()).digest(), reverse=True)


class Nodes:
    def __init__(self, session_id: str, addresses: Sequence[str]) -> None:
        if not addresses:
            raise ValueError("a session needs the address of at least one node")
        self._order = order(session_id, [parse_address(address) for address in dict.fromkeys(addresses)])
        self._leaders: dict[tuple[str, int], Address] = {}

    def candidates(self, writes_to: tuple[str, int] | None) -> list[Address]:
        """In the order in which they are tried."""
        leader = None if writes_to is None else self._leaders.get(writes_to)
        return self._order if leader is None else [leader, *(each for each in self._order if each != leader)]

    def leads(self, partition: tuple[str, int], address: Address) -> None:
        while len(self._leaders) >= LEADERS_MAX:
            del self._leaders[next(iter(self._leaders))]
        self._leaders[partition] = address

    def is_away(self, partition: tuple[str, int], address: Address) -> None:
        if self._leaders.get(partition) == address:
            del self._leaders[partition]

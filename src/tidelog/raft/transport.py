"""The way to the other members: requests on the nodes' ordinary listeners, under an API key that ApiVersions does not
list for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Address(NamedTuple):
    host: str
    port: int


class Transport(Protocol):
    """What the quorum needs of the node's connections to its peers."""

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        """The body of the response. OSError or TimeoutError when there is none; the quorum tries again itself."""
        ...

    async def is_gone(self, node_id: int) -> bool:
        """Whether the member's port is closed. False as long as that is not sure."""
        ...

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        """Where the members are from now on; connections to others may be closed."""
        ...


class NoPeers:
    """The transport of a quorum that is and stays one node (tests, tools)."""

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        raise ConnectionError(f"there is no way to node {node_id}")

    async def is_gone(self, node_id: int) -> bool:
        return False

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        pass

"""The way to the other members: requests on the nodes' ordinary listeners, under an API key that no client is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.net.rpc import RpcError, RpcPool

PURPOSE = "raft"


class Address(NamedTuple):
    host: str
    port: int


class Transport(Protocol):
    """What the quorum needs of the node's connections to its peers."""

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        """The body of the response. OSError or TimeoutError when there is none; the quorum tries again itself."""
        ...

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        """Where the members are from now on; connections to others may be closed."""
        ...


class NoPeers:
    """The transport of a quorum that is and stays one node (tests, tools)."""

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        raise ConnectionError(f"there is no way to node {node_id}")

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        pass


class RpcTransport:
    """Over connections of its own, to the addresses the configuration of the quorum names."""

    def __init__(self, node_id: int, *, timeout_s: float) -> None:
        """`timeout_s`: after this long without an answer the connection is given up."""
        self._timeout_s = timeout_s
        self._addresses: dict[int, Address] = {}
        self._pool = RpcPool(self._addresses.get, client_id=f"tidelog-{node_id}")

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        client = self._pool.client(node_id, PURPOSE)
        try:
            frame, start = await client.call_encoded(api_key, version, body, timeout_s=self._timeout_s)
        except RpcError as error:
            raise ConnectionError(str(error)) from None
        return bytes(memoryview(frame)[start:])

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        for node_id in self._addresses.keys() - addresses.keys():
            self._pool.forget(node_id)
        self._addresses.clear()
        self._addresses.update(addresses)

    def close(self) -> None:
        self._pool.close()

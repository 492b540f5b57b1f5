"""The connections of one node to its peers: one per peer and purpose, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.net.client.pipelined import Address, RpcClient
from tidelog.net.framing import SCRATCH_BYTES
from tidelog.net.network import NETWORK, Network


class RpcPool:
    def __init__(
        self, find_address: Callable[[int], Address | None], *, client_id: str, network: Network = NETWORK
    ) -> None:
        self._find_address = find_address
        self._client_id = client_id
        self._network = network
        self._clients: dict[tuple[int, str], RpcClient] = {}
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        """Shared: what a connection reads into it is taken out before the next one reads."""

    def client(self, node_id: int, purpose: str) -> RpcClient:
        """`purpose` keeps apart what must not wait for each other: "fetch", "control", "raft"."""
        client = self._clients.get((node_id, purpose))
        if client is None:
            client = self._clients[node_id, purpose] = RpcClient(
                f"node {node_id}",
                lambda: self._find_address(node_id),
                client_id=f"{self._client_id}-{purpose}",
                scratch=self._scratch,
                network=self._network,
            )
        return client

    def forget(self, node_id: int) -> None:
        """The node is no longer a peer: its connections are closed."""
        for key in [key for key in self._clients if key[0] == node_id]:
            self._clients.pop(key).close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

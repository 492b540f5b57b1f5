"""Where the other nodes are, and the connections to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidelog.net.client.errors import RpcError
from tidelog.net.client.pool import RpcPool
from tidelog.net.network import NETWORK, Network

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.image import MetadataImage
    from tidelog.raft.transport import Address

LOOKS_MAX = 3
LOOK_PAUSE_S = 0.05
LOOK_SECONDS_MAX = 0.5


class Peers:
    """The node's connections, and the transport of its metadata quorum."""

    def __init__(
        self,
        config: BrokerConfig,
        newest_image: Callable[[], MetadataImage],
        configured: Mapping[int, tuple[str, int]],
        network: Network = NETWORK,
    ) -> None:
        """`configured`: what the operator says about the first voters, which holds against everything else."""
        self._newest_image = newest_image
        self._configured = configured
        self._listener_name = config.inter_node_listener_name
        self._timeout_s = config.controller_quorum_request_timeout_ms / 1000
        self._is_refused = network.is_refused
        self._members: dict[int, tuple[str, int]] = {}
        self._moved: dict[int, tuple[str, int]] = {}
        """Members that came back at another address and could not register there yet."""
        self.pool = RpcPool(self.find_address, client_id=f"tidelog-node-{config.node_id}", network=network)

    def find_address(self, node_id: int) -> tuple[str, int] | None:
        """The address that the node has registered; before it has, the one by which the quorum knows it."""
        if node_id in self._configured:
            return self._configured[node_id]
        broker = self._newest_image().brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._listener_name)
        known = self._members.get(node_id) if endpoint is None else (endpoint.host, endpoint.port)
        moved = self._moved.get(node_id)
        if moved is not None and moved == known:
            del self._moved[node_id]
        return moved or known

    def learn_addresses(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """From a node that took this one in: enough to find the quorum with."""
        self._members.update(addresses)

    def note_address(self, node_id: int, address: tuple[str, int]) -> None:
        """Where a member says it is now; its registration follows when the quorum has reached it there."""
        if address != self.find_address(node_id):
            self._moved[node_id] = address

    # -- the quorum's transport --------------------------------------------------------------------------------------

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        try:
            frame, position = await self.pool.client(node_id, "raft").call_encoded(
                api_key, version, body, timeout_s=self._timeout_s
            )
        except RpcError as error:
            raise ConnectionError(str(error)) from None
        return bytes(memoryview(frame)[position:])

    async def is_gone(self, node_id: int) -> bool:
        """Whether the node's port is closed: its process ended, or its machine refuses the connection.

        False when there is no answer at all, which says nothing, and when a process takes the connection. Then it is
        tried again a few times: the listener of a process that ends may live a moment longer than the rest of it.
        """
        address = self.find_address(node_id)
        if address is None:
            return False
        for attempt in range(LOOKS_MAX):
            if attempt:
                await asyncio.sleep(LOOK_PAUSE_S)
            try:
                async with asyncio.timeout(LOOK_SECONDS_MAX):
                    found = await self._is_refused(*address)
            except (OSError, TimeoutError):
                return False
            if found:
                return True
        return False

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        self._members.update({node_id: (address.host, address.port) for node_id, address in addresses.items()})

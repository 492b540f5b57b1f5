"""Which versions of which APIs a peer serves, and which one to send.

A node sends the highest version that both know. A rolling upgrade rests on this: nodes of two versions work together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.net.client.errors import UnsupportedByPeer
from tidelog.protocol.generated.api_versions import ApiVersionsResponse
from tidelog.protocol.index import ApiKey, api_name, schema_versions
from tidelog.protocol.private_apis import JOIN_API_KEY, RAFT_API_KEY, STATISTICS_API_KEY

_BETWEEN_NODES_0_1: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    RAFT_API_KEY: (0, 0),
    JOIN_API_KEY: (0, 0),
    STATISTICS_API_KEY: (0, 0),
}
"""Version 0.1 serves these to nodes and does not list them."""

_SENT_TO_NODES_0_1: Final[Mapping[int, tuple[int, int]]] = {
    **_BETWEEN_NODES_0_1,
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
}
"""All that a node sends to another one, as version 0.1 serves it."""


class PeerVersions:
    """The versions that one peer serves; of one connection, since the next may find the peer upgraded."""

    __slots__ = ("_peer", "_ranges")

    def __init__(self, peer: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._peer = peer
        self._ranges = ranges

    @classmethod
    def from_response(cls, peer: str, response: ApiVersionsResponse, *, is_node: bool) -> PeerVersions:
        """`is_node`: the peer is a node, and was asked by one."""
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if is_node and not _BETWEEN_NODES_0_1.keys() & ranges.keys():
            ranges.update(_BETWEEN_NODES_0_1)
        return cls(peer, ranges)

    @classmethod
    def of_silent_node(cls, peer: str) -> PeerVersions:
        """Of a node that closes the connection when it is asked: 0.1 does while it starts, and needs its quorum then.

        Every later version serves these as well, so that it is no mistake to assume them of any node.
        """
        return cls(peer, _SENT_TO_NODES_0_1)

    def newest(self, api_key: int) -> int:
        """The highest version that both know. UnsupportedByPeer when there is none."""
        low, high = schema_versions(api_key)
        served = self._ranges.get(api_key)
        newest = -1 if served is None else min(high, served[1])
        if served is None or newest < max(low, served[0]):
            raise UnsupportedByPeer(self._refusal(api_key, f"versions {low} to {high}"))
        return newest

    def require(self, api_key: int, version: int) -> None:
        """UnsupportedByPeer when the peer does not serve this version."""
        served = self._ranges.get(api_key)
        if served is None or not served[0] <= version <= served[1]:
            raise UnsupportedByPeer(self._refusal(api_key, f"version {version}"))

    def _refusal(self, api_key: int, wanted: str) -> str:
        served = self._ranges.get(api_key)
        if served is None:
            return f"{self._peer} does not support {api_name(api_key)}"
        return f"{self._peer} supports versions {served[0]} to {served[1]} of {api_name(api_key)}, not {wanted}"

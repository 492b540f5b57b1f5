"""The fetch requests of followers without objects in between: each round of replication sends one.

The same bytes as the generated `fetch` module, which the tests hold this one against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct as Format
from typing import Final

from tidelog.protocol.wire import append_compact_string, append_tagged, encode_long_size

REPLICA_FETCH_VERSION: Final = 17

PartitionKey = tuple[bytes, int]
"""Topic id and partition."""

FetchPositionFields = tuple[int, int, int, int]
"""Fetch offset, log start offset, current leader epoch, last fetched epoch."""

_pack_head = Format(">iiibii").pack
_pack_partition = Format(">iiqiqix").pack
_pack_i = Format(">i").pack
_pack_replica_state = Format(">iqx").pack


def encode_replica_fetch(
    *,
    node_id: int,
    broker_epoch: int,
    cluster_id: str,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    session_id: int,
    session_epoch: int,
    named: Mapping[PartitionKey, FetchPositionFields],
    forgotten: Iterable[PartitionKey],
) -> bytes:
    """The body of a request in version REPLICA_FETCH_VERSION."""
    out = bytearray(_pack_head(max_wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch))
    topics: dict[bytes, list[bytes]] = {}
    for (topic_id, index), (fetch_offset, log_start_offset, leader_epoch, last_epoch) in named.items():
        packed = _pack_partition(index, leader_epoch, fetch_offset, last_epoch, log_start_offset, partition_max_bytes)
        topics.setdefault(topic_id, []).append(packed)
    _append_topics(out, topics)
    left: dict[bytes, list[bytes]] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, []).append(_pack_i(index))
    _append_topics(out, left)
    # No rack: followers read from the leader. Then the tagged fields, cluster id and the replica that fetches.
    out += b"\x01\x02"
    field = bytearray()
    append_compact_string(field, cluster_id)
    append_tagged(out, 0, field)
    append_tagged(out, 1, _pack_replica_state(node_id, broker_epoch))
    return bytes(out)


def _append_topics(out: bytearray, topics: dict[bytes, list[bytes]]) -> None:
    _append_size(out, len(topics))
    for topic_id, partitions in topics.items():
        out += topic_id
        _append_size(out, len(partitions))
        out += b"".join(partitions)
        out.append(0)


def _append_size(out: bytearray, count: int) -> None:
    if count < 127:
        out.append(count + 1)
    else:
        out += encode_long_size(count + 1)

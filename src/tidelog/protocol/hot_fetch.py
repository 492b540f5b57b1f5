"""Fetch requests and responses without objects in between: every poll of a consumer or follower comes through here.

The same bytes as the generated `fetch` module, which the tests hold this one against, in every version. A response is
a gather list: the records of a partition are named in it, never copied into it.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.protocol.errors import UnencodableValue, UnsupportedVersion
from tidelog.protocol.hot_fetch_request import (
    FLEXIBLE_FROM,
    MAX_VERSION,
    MIN_VERSION,
    TOPIC_IDS_FROM,
    FetchRequest,
    decode_fetch,
)
from tidelog.protocol.wire import (
    append_compact_string,
    append_node_endpoints,
    append_string,
    append_tagged,
    encode_long_size,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.protocol.wire import NodeEndpoint

    TopicKey = str | bytes
    """Name up to version 12, topic id from 13 on."""


class Region(Protocol):
    """Records that are read only when they are sent."""

    size: int


class FetchedPartition(Protocol):
    """What a response says about one partition."""

    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def aborted_transactions(self) -> Sequence[tuple[int, int]] | None:
        """Producer id and first offset of each; None (null) unless the fetch is read_committed."""

    @property
    def diverging_epoch(self) -> tuple[int, int] | None:
        """Epoch and its end offset, for a follower whose log parts from this one; encoded from version 12 on."""

    @property
    def region(self) -> Region | bytes | bytearray | memoryview | None:
        """The records; None when there are none."""


__all__ = ["FetchRequest", "decode_fetch", "encode_fetch_response"]

ENDPOINTS_FROM: Final = 16
_UNKNOWN: Final = (-1, -1)
"""The default of both tagged pairs, which is never written."""

_pack_i: Final = Format(">i").pack
_pack_ihi: Final = Format(">ihi").pack
_pack_ii_tags: Final = Format(">iix").pack
_pack_iq_tags: Final = Format(">iqx").pack
_pack_qq: Final = Format(">qq").pack
_pack_qq_tags: Final = Format(">qqx").pack
_pack_fixed_v4: Final = Format(">ihqqi").pack
_pack_fixed_v5: Final = Format(">ihqqqi").pack
_pack_fixed_v12: Final = Format(">ihqqqB").pack
_pack_whole_v12: Final = Format(">ihqqqBiB").pack


def encode_fetch_response(
    version: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[tuple[int, FetchedPartition]]]],
    *,
    current_leaders: Mapping[tuple[TopicKey, int], tuple[int, int]] | None = None,
    preferred_read_replicas: Mapping[tuple[TopicKey, int], int] | None = None,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    """The body of a response as a gather list: bytearrays, and between them the regions as they were given.

    The rare things: `current_leaders` (leader id and epoch by topic and partition, from version 12 on),
    `preferred_read_replicas` (from 11) and `node_endpoints` (from 16).
    """
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise UnsupportedVersion("FetchResponse", version)
    try:
        if version < FLEXIBLE_FROM:
            head = _pack_ihi(throttle_time_ms, error_code, session_id) if version >= 7 else _pack_i(throttle_time_ms)
            return _encode_classic(version, head, topics, preferred_read_replicas)
        head = _pack_ihi(throttle_time_ms, error_code, session_id)
        parts = _encode_flexible(version, head, topics, current_leaders, preferred_read_replicas)
        if node_endpoints and version >= ENDPOINTS_FROM:
            append_node_endpoints(parts[-1], node_endpoints)
        else:
            parts[-1].append(0)
        return parts
    except struct_error as error:
        raise UnencodableValue(f"FetchResponse version {version}: {error}") from error


def _encode_flexible(
    version: int,
    head: bytes,
    topics: Sequence[tuple[TopicKey, Sequence[tuple[int, FetchedPartition]]]],
    current_leaders: Mapping[tuple[TopicKey, int], tuple[int, int]] | None,
    preferred_read_replicas: Mapping[tuple[TopicKey, int], int] | None,
) -> list[Any]:
    out = bytearray(head)
    parts: list[Any] = [out]
    n = len(topics) + 1
    out += encode_long_size(n) if n > 127 else bytes((n,))
    for key, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            out += key  # type: ignore[arg-type]
        else:
            append_compact_string(out, key)  # type: ignore[arg-type]
        n = len(partitions) + 1
        out += encode_long_size(n) if n > 127 else bytes((n,))
        for index, answer in partitions:
            preferred = -1 if preferred_read_replicas is None else preferred_read_replicas.get((key, index), -1)
            region = answer.region
            size = _size_of(region)
            _append_fixed_flexible(out, index, answer, preferred, size + 1)
            if size:
                parts.append(region)
                out = bytearray()
                parts.append(out)
            leader = None if current_leaders is None else current_leaders.get((key, index))
            if leader is None and answer.diverging_epoch is None:
                out.append(0)
            else:
                _append_partition_tags(out, answer.diverging_epoch, leader)
        out.append(0)
    return parts


def _size_of(region: Region | bytes | bytearray | memoryview | None) -> int:
    if region is None:
        return 0
    if isinstance(region, (bytes, bytearray, memoryview)):
        return len(region)
    return region.size


def _append_fixed_flexible(
    out: bytearray, index: int, answer: FetchedPartition, preferred_read_replica: int, compact_size: int
) -> None:
    """All that stands before the records."""
    aborted = answer.aborted_transactions
    fixed = index, answer.error_code, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
    if not aborted:
        n = 0 if aborted is None else 1
        if compact_size < 128:
            out += _pack_whole_v12(*fixed, n, preferred_read_replica, compact_size)
            return
        out += _pack_fixed_v12(*fixed, n)
    else:
        n = len(aborted) + 1
        out += _pack_fixed_v12(*fixed, min(n, 255))
        if n > 127:
            out[-1:] = encode_long_size(n)
        for producer_id, first_offset in aborted:
            out += _pack_qq_tags(producer_id, first_offset)
    out += _pack_i(preferred_read_replica)
    out += encode_long_size(compact_size) if compact_size > 127 else bytes((compact_size,))


def _append_partition_tags(
    out: bytearray, diverging_epoch: tuple[int, int] | None, leader: tuple[int, int] | None
) -> None:
    tags = bytearray()
    count = 0
    for tag, pack, value in ((0, _pack_iq_tags, diverging_epoch), (1, _pack_ii_tags, leader)):
        if value is not None and value != _UNKNOWN:
            append_tagged(tags, tag, pack(*value))
            count += 1
    out.append(count)
    out += tags


def _encode_classic(
    version: int,
    head: bytes,
    topics: Sequence[tuple[TopicKey, Sequence[tuple[int, FetchedPartition]]]],
    preferred_read_replicas: Mapping[tuple[TopicKey, int], int] | None,
) -> list[Any]:
    out = bytearray(head)
    parts: list[Any] = [out]
    out += _pack_i(len(topics))
    for key, partitions in topics:
        append_string(out, key)  # type: ignore[arg-type]
        out += _pack_i(len(partitions))
        for index, answer in partitions:
            aborted = answer.aborted_transactions
            n = -1 if aborted is None else len(aborted)
            fixed = index, answer.error_code, answer.high_watermark, answer.last_stable_offset
            out += _pack_fixed_v4(*fixed, n) if version < 5 else _pack_fixed_v5(*fixed, answer.log_start_offset, n)
            for producer_id, first_offset in aborted or ():
                out += _pack_qq(producer_id, first_offset)
            if version >= 11:
                preferred = -1 if preferred_read_replicas is None else preferred_read_replicas.get((key, index), -1)
                out += _pack_i(preferred)
            region = answer.region
            size = _size_of(region)
            out += _pack_i(size)
            if size:
                parts.append(region)
                out = bytearray()
                parts.append(out)
    return parts

"""Fetch requests without objects in between; see `hot_fetch`."""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from tidelog.protocol.errors import MalformedMessage, UnsupportedVersion
from tidelog.protocol.wire import (
    decode_int32_array,
    decode_long_size,
    decode_long_string_size,
    decode_long_tag_count,
    decode_tag,
    skip_tags,
)

if TYPE_CHECKING:
    from tidelog.protocol.wire import Buffer

    FetchPartition = tuple[int, int, int, int, int, int]
    """Partition, current leader epoch, fetch offset, last fetched epoch, log start offset, most bytes."""
    FetchTopic = tuple[str | None, bytes | None, list[FetchPartition]]
    """Name (up to version 12) or topic id (from 13 on), and its partitions."""
    ForgottenTopic = tuple[str | None, bytes | None, list[int]]

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
DIRECTORY_IDS_FROM: Final = 17
HIGH_WATERMARKS_FROM: Final = 18

_unpack_h: Final = Format(">h").unpack_from
_unpack_i: Final = Format(">i").unpack_from
_unpack_iq: Final = Format(">iq").unpack_from
_unpack_v4: Final = Format(">iiiibi").unpack_from
_unpack_v7: Final = Format(">iiiibiii").unpack_from
_unpack_v12: Final = Format(">iiiibiiB").unpack_from
_unpack_v15: Final = Format(">iiibiiB").unpack_from
_unpack_u_b: Final = Format(">16sB").unpack_from

_PARTITION_V4: Final = Format(">iqi")
_PARTITION_V5: Final = Format(">iqqi")
_PARTITION_V9: Final = Format(">iiqqi")
_PARTITION_V12: Final = Format(">iiqiqix")
_partition_v12: Final = Format(">iiqiqi").unpack_from
_iterate_v12: Final = _PARTITION_V12.iter_unpack


class FetchRequest:
    __slots__ = (
        "cluster_id",
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    replica_id: int
    """-1 for a consumer, else the node id of the follower."""
    replica_epoch: int
    cluster_id: str | None
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str


def new_fetch(
    topics: list[FetchTopic], *, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int
) -> FetchRequest:
    """Of a consumer, without a session."""
    request = FetchRequest()
    request.replica_id = request.replica_epoch = -1
    request.cluster_id = None
    request.max_wait_ms = max_wait_ms
    request.min_bytes = min_bytes
    request.max_bytes = max_bytes
    request.isolation_level = isolation_level
    request.session_id, request.session_epoch = 0, -1
    request.topics = topics
    request.forgotten = []
    request.rack_id = ""
    return request


def decode_fetch(frame: Buffer, pos: int, version: int) -> FetchRequest:
    """Reads the body of a request at `pos`. Raises nothing but MalformedMessage and UnsupportedVersion."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise UnsupportedVersion("FetchRequest", version)
    request = FetchRequest()
    request.replica_epoch = -1
    request.cluster_id = None
    try:
        if version >= FLEXIBLE_FROM:
            pos = _decode_flexible(request, frame, pos, version)
        else:
            pos = _decode_classic(request, frame, pos, version)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"FetchRequest version {version}: {error}") from None
    if pos > len(frame):
        raise MalformedMessage(f"FetchRequest version {version}: it ends beyond its bytes")
    return request


def _decode_flexible(request: FetchRequest, frame: Buffer, pos: int, version: int) -> int:
    limit = len(frame)
    if version >= REPLICA_STATE_FROM:
        request.replica_id = -1
        fixed = _unpack_v15(frame, pos)
        pos += 22
    else:
        request.replica_id, *rest = _unpack_v12(frame, pos)
        fixed = tuple(rest)
        pos += 26
    (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        n,
    ) = fixed
    if n > 127:
        n, pos = decode_long_size(frame, pos - 1)
    if n == 0 or n - 1 > limit - pos:
        raise MalformedMessage("FetchRequest.topics is null or has more elements than bytes")
    topics: list[FetchTopic] = []
    for _ in range(n - 1):
        name, topic_id, n, pos = _decode_topic_flexible(frame, pos, limit, version)
        partitions, pos = _decode_partitions_flexible(frame, pos, limit, version, n)
        topics.append((name, topic_id, partitions))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    request.topics = topics
    forgotten: list[ForgottenTopic] = []
    request.forgotten = forgotten
    n = frame[pos]
    pos += 1
    if n != 1:
        pos = _decode_forgotten_flexible(forgotten, frame, pos, limit, version)
    n = frame[pos]
    pos += 1
    if n > 127:
        n, pos = decode_long_string_size(frame, pos - 1)
    if n == 0:
        raise MalformedMessage("FetchRequest.rack_id is null")
    end = pos + n - 1
    request.rack_id = str(frame[pos:end], "utf-8")
    pos = end + 1
    if frame[end]:
        pos = _decode_tags(request, frame, pos, limit, version)
    return pos


def _decode_topic_flexible(
    frame: Buffer, pos: int, limit: int, version: int
) -> tuple[str | None, bytes | None, int, int]:
    """Name, topic id, count of partitions, position."""
    name = topic_id = None
    if version >= TOPIC_IDS_FROM:
        topic_id, n = _unpack_u_b(frame, pos)
        pos += 17
    else:
        n = frame[pos]
        pos += 1
        if n > 127:
            n, pos = decode_long_string_size(frame, pos - 1)
        if n == 0:
            raise MalformedMessage("FetchTopic.topic is null")
        end = pos + n - 1
        name = str(frame[pos:end], "utf-8")
        n = frame[end]
        pos = end + 1
    if n > 127:
        n, pos = decode_long_size(frame, pos - 1)
    if n == 0:
        raise MalformedMessage("FetchTopic.partitions is null")
    return name, topic_id, n - 1, pos


def _decode_partitions_flexible(
    frame: Buffer, pos: int, limit: int, version: int, count: int
) -> tuple[list[FetchPartition], int]:
    """Reads them all at once when none has a tagged field, which is what consumers send."""
    if count * 33 > limit - pos:
        raise MalformedMessage("FetchTopic.partitions has more elements than bytes")
    end = pos + 33 * count
    block = frame[pos:end]
    if not any(block[32::33]):
        return list(_iterate_v12(block)), end
    partitions: list[FetchPartition] = []
    for _ in range(count):
        partitions.append(_partition_v12(frame, pos))
        n = frame[pos + 32]
        pos += 33
        if n > 127:
            n, pos = decode_long_tag_count(frame, pos - 1)
        for _ in range(n):
            tag, pos, stop = decode_tag(frame, pos, limit)
            # The directory id and high watermark that followers send are of no use here, but must be well-formed.
            if (tag == 0 and version >= DIRECTORY_IDS_FROM and stop - pos != 16) or (
                tag == 1 and version >= HIGH_WATERMARKS_FROM and stop - pos != 8
            ):
                raise MalformedMessage("FetchPartition has a tagged field of the wrong size")
            pos = stop
    return partitions, pos


def _decode_forgotten_flexible(
    forgotten: list[ForgottenTopic], frame: Buffer, pos: int, limit: int, version: int
) -> int:
    """`pos` is just after the first byte of the count."""
    n = frame[pos - 1]
    if n > 127:
        n, pos = decode_long_size(frame, pos - 1)
    if n == 0 or n - 1 > limit - pos:
        raise MalformedMessage("FetchRequest.forgotten_topics_data is null or has more elements than bytes")
    for _ in range(n - 1):
        name, topic_id, n, pos = _decode_topic_flexible(frame, pos, limit, version)
        forgotten.append((name, topic_id, decode_int32_array(frame, pos, limit, n)))
        pos += 4 * n + 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    return pos


def _decode_tags(request: FetchRequest, frame: Buffer, pos: int, limit: int, version: int) -> int:
    count = frame[pos - 1]
    if count > 127:
        count, pos = decode_long_tag_count(frame, pos - 1)
    for _ in range(count):
        tag, pos, stop = decode_tag(frame, pos, limit)
        if tag == 0:
            n = frame[pos]
            pos += 1
            if n > 127:
                n, pos = decode_long_string_size(frame, pos - 1)
            request.cluster_id = None
            if n:
                request.cluster_id = str(frame[pos : pos + n - 1], "utf-8")
                pos += n - 1
        elif tag == 1 and version >= REPLICA_STATE_FROM:
            request.replica_id, request.replica_epoch = _unpack_iq(frame, pos)
            pos += 13
            if frame[pos - 1]:
                pos = skip_tags(frame, pos, limit)
        else:
            pos = stop
        if pos != stop:
            raise MalformedMessage("FetchRequest has a tagged field of the wrong size")
    return pos


def _decode_classic(request: FetchRequest, frame: Buffer, pos: int, version: int) -> int:
    limit = len(frame)
    if version >= 7:
        fixed = _unpack_v7(frame, pos)
        pos += 29
    else:
        fixed = (*(head := _unpack_v4(frame, pos))[:5], 0, -1, head[5])
        pos += 21
    (
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        count,
    ) = fixed
    if count < 0 or count * 6 > limit - pos:
        raise MalformedMessage("FetchRequest.topics is null or has more elements than bytes")
    topics: list[FetchTopic] = []
    for _ in range(count):
        name, n, pos = _decode_topic_classic(frame, pos)
        partitions, pos = _decode_partitions_classic(frame, pos, limit, version, n)
        topics.append((name, None, partitions))
    request.topics = topics
    forgotten: list[ForgottenTopic] = []
    request.forgotten = forgotten
    request.rack_id = ""
    if version >= 7:
        count = _unpack_i(frame, pos)[0]
        pos += 4
        if count < 0 or count * 6 > limit - pos:
            raise MalformedMessage("FetchRequest.forgotten_topics_data is null or has more elements than bytes")
        for _ in range(count):
            name, n, pos = _decode_topic_classic(frame, pos)
            forgotten.append((name, None, decode_int32_array(frame, pos, limit, n)))
            pos += 4 * n
    if version >= 11:
        n = _unpack_h(frame, pos)[0]
        if n < 0:
            raise MalformedMessage("FetchRequest.rack_id is null")
        pos += 2 + n
        request.rack_id = str(frame[pos - n : pos], "utf-8")
    return pos


def _decode_topic_classic(frame: Buffer, pos: int) -> tuple[str, int, int]:
    n = _unpack_h(frame, pos)[0]
    if n < 0:
        raise MalformedMessage("FetchTopic.topic is null")
    end = pos + 2 + n
    name = str(frame[pos + 2 : end], "utf-8")
    count = _unpack_i(frame, end)[0]
    if count < 0:
        raise MalformedMessage("FetchTopic.partitions is null")
    return name, count, end + 4


def _decode_partitions_classic(
    frame: Buffer, pos: int, limit: int, version: int, count: int
) -> tuple[list[FetchPartition], int]:
    layout = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    end = pos + count * layout.size
    if end > limit:
        raise MalformedMessage("FetchTopic.partitions has more elements than bytes")
    rows = layout.iter_unpack(frame[pos:end])
    if version >= 9:
        return [(index, epoch, offset, -1, start, most) for index, epoch, offset, start, most in rows], end
    if version >= 5:
        return [(index, -1, offset, -1, start, most) for index, offset, start, most in rows], end
    return [(index, -1, offset, -1, -1, most) for index, offset, most in rows], end

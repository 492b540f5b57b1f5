"""Produce requests and responses without objects in between: the cost of every produced batch starts here.

The same bytes as the generated `produce` module, which the tests hold this one against, in every version. Records are
slices of the frame, not copies; they keep the frame alive.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be, write_i64_be

from tidelog.codec.buffers import view_of
from tidelog.protocol.errors import MalformedMessage, UnencodableValue, UnsupportedVersion
from tidelog.protocol.hot_wire import write_string
from tidelog.protocol.wire import (
    append_compact_string,
    append_node_endpoints,
    append_string,
    append_tagged,
    decode_long_size,
    decode_long_string_size,
    encode_long_size,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_extensions import i64

    from tidelog.protocol.wire import Buffer, NodeEndpoint

    Records = bytes | memoryview | None
    ProducedTopic = tuple[str | None, bytes | None, list[tuple[int, Records]]]
    """Name (up to version 12) or topic id (from 13 on), and the records of each partition."""
    ProduceRequest = tuple[str | None, int, int, list[ProducedTopic]]
    """Transactional id, acks, timeout in milliseconds, topics."""

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
LEADERS_FROM: Final = 10
"""The first version whose response names the partition's leader."""

_ONE_BYTES_MIN: Final = 40
"""Enough for what is read of a request with one batch, and far less than any batch takes."""
_BEHIND_ONE: Final = b"\1\0\0\0\0\0\0\0\0"
"""Ends a response: no refused records, no message, no tags of partition and topic, no throttling, no tags."""
_UNKNOWN_LEADER: Final = (-1, -1)
"""The default of the field, which is never written."""

_unpack_h: Final = Format(">h").unpack_from
_unpack_i: Final = Format(">i").unpack_from
_unpack_ii: Final = Format(">ii").unpack_from
_unpack_hii: Final = Format(">hii").unpack_from
_unpack_hi_b: Final = Format(">hiB").unpack_from
_unpack_i_b: Final = Format(">iB").unpack_from
_unpack_u_b: Final = Format(">16sB").unpack_from


_pack_i: Final = Format(">i").pack
_pack_i_tags: Final = Format(">ix").pack
_pack_ii_tags: Final = Format(">iix").pack
_pack_v3: Final = Format(">ihqq").pack
_pack_v5: Final = Format(">ihqqq").pack
_pack_v8: Final = Format(">ihqqqih").pack
_pack_v9: Final = Format(">ihqqqBBB").pack


def decode_produce(frame: Buffer, pos: int, version: int) -> ProduceRequest:
    """Reads the body of a request at `pos`. Raises nothing but MalformedMessage and UnsupportedVersion."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise UnsupportedVersion("ProduceRequest", version)
    try:
        if version >= FLEXIBLE_FROM:
            # What is large was received into a place of its own: there a few steps more do not count.
            one = _decode_one(frame, pos, version) if isinstance(frame, bytes) else None
            return one if one is not None else _decode_flexible(frame, pos, version)
        return _decode_classic(frame, pos)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"ProduceRequest version {version}: {error}") from None


def _decode_one(frame: bytes, pos: i64, version: int) -> ProduceRequest | None:
    """A request with one batch outside of transactions, as most are, in few steps. None for any other: it is read, and
    what is wrong with it said, the general way."""
    limit: i64 = len(frame)
    if limit - pos < _ONE_BYTES_MIN or frame[pos] != 0 or frame[pos + 7] != 2:
        return None
    acks, timeout_ms = read_i16_be(frame, pos + 1), read_i32_be(frame, pos + 3)
    name: str | None = None
    topic_id: bytes | None = None
    if version >= TOPIC_IDS_FROM:
        topic_id = frame[pos + 8 : pos + 24]
        pos += 24
    else:
        name_end: i64 = pos + 8 + frame[pos + 8]
        if not 0 < frame[pos + 8] < 128 or limit - name_end < _ONE_BYTES_MIN:
            return None
        name = frame[pos + 9 : name_end].decode("utf-8")
        pos = name_end
    size: i64 = frame[pos + 5]
    if frame[pos] != 2 or size == 0:
        return None
    index = read_i32_be(frame, pos + 1)
    pos += 6
    if size > 127:
        size, pos = _decode_records_size(frame, pos, size)
    end: i64 = pos + size - 1
    # Behind the records there are only three counts of tagged fields: the partition's, the topic's, the request's.
    if end + 3 != limit or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    return None, acks, timeout_ms, [(name, topic_id, [(index, view_of(frame, pos, end))])]


def _decode_records_size(frame: Buffer, pos: int, n: int) -> tuple[int, int]:
    """The size that begins with `n` before `pos`, of more than one byte; those of real batches have two or three."""
    more: int = frame[pos]
    if more < 128:
        return n + (more << 7) - 128, pos + 1
    most: int = frame[pos + 1]
    if most < 128:
        return n + (more << 7) + (most << 14) - 128 - (128 << 7), pos + 2
    return decode_long_size(frame, pos - 1)


def _decode_flexible(frame: Buffer, pos: int, version: int) -> ProduceRequest:
    limit = len(frame)
    n = frame[pos]
    pos += 1
    if n > 127:
        n, pos = decode_long_string_size(frame, pos - 1)
    transactional_id = None
    if n:
        end = pos + n - 1
        transactional_id = str(frame[pos:end], "utf-8")
        pos = end
    acks, timeout_ms, n = _unpack_hi_b(frame, pos)
    pos += 7
    if n > 127:
        n, pos = decode_long_size(frame, pos - 1)
    if n == 0 or n - 1 > limit - pos:
        raise MalformedMessage("ProduceRequest.topic_data is null or has more elements than bytes")
    topics: list[ProducedTopic] = []
    for _ in range(n - 1):
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
                raise MalformedMessage("TopicProduceData.name is null")
            end = pos + n - 1
            name = str(frame[pos:end], "utf-8")
            n = frame[end]
            pos = end + 1
        if n > 127:
            n, pos = decode_long_size(frame, pos - 1)
        if n == 0 or n - 1 > limit - pos:
            raise MalformedMessage("TopicProduceData.partition_data is null or has more elements than bytes")
        partitions, pos = _decode_partitions_flexible(frame, pos, limit, n - 1)
        topics.append((name, topic_id, partitions))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    if frame[pos]:
        skip_tags(frame, pos + 1, limit)
    return transactional_id, acks, timeout_ms, topics


def _decode_partitions_flexible(
    frame: Buffer, pos: int, limit: int, count: int
) -> tuple[list[tuple[int, Records]], int]:
    view = memoryview(frame)
    partitions: list[tuple[int, Records]] = []
    for _ in range(count):
        index, n = _unpack_i_b(frame, pos)
        pos += 5
        if n > 127:
            n, pos = _decode_records_size(frame, pos, n)
        if n:
            end = pos + n - 1
            if end > limit:
                raise MalformedMessage("PartitionProduceData.records ends beyond the request")
            partitions.append((index, view[pos:end]))
            pos = end
        else:
            partitions.append((index, None))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    return partitions, pos


def _decode_classic(frame: Buffer, pos: int) -> ProduceRequest:
    limit = len(frame)
    view = memoryview(frame)
    n = _unpack_h(frame, pos)[0]
    pos += 2
    transactional_id = None
    if n >= 0:
        transactional_id = str(frame[pos : pos + n], "utf-8")
        pos += n
    acks, timeout_ms, topic_count = _unpack_hii(frame, pos)
    pos += 10
    if topic_count < 0 or topic_count * 6 > limit - pos:
        raise MalformedMessage("ProduceRequest.topic_data is null or has more elements than bytes")
    topics: list[ProducedTopic] = []
    for _ in range(topic_count):
        n = _unpack_h(frame, pos)[0]
        if n < 0:
            raise MalformedMessage("TopicProduceData.name is null")
        end = pos + 2 + n
        name = str(frame[pos + 2 : end], "utf-8")
        count = _unpack_i(frame, end)[0]
        pos = end + 4
        if count < 0 or count * 8 > limit - pos:
            raise MalformedMessage("TopicProduceData.partition_data is null or has more elements than bytes")
        partitions: list[tuple[int, Records]] = []
        for _ in range(count):
            index, n = _unpack_ii(frame, pos)
            pos += 8
            if n < 0:
                partitions.append((index, None))
                continue
            end = pos + n
            if end > limit:
                raise MalformedMessage("PartitionProduceData.records ends beyond the request")
            partitions.append((index, view[pos:end]))
            pos = end
        topics.append((name, None, partitions))
    return transactional_id, acks, timeout_ms, topics


class PartitionResult:
    """What became of the records of one partition."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int,
        error_code: int,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        error_message: str | None = None,
        record_errors: Sequence[tuple[int, str | None]] = (),
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.error_message = error_message
        self.record_errors = record_errors
        """Index within the batch and message of each record that was refused; encoded from version 8 on."""
        self.current_leader = current_leader
        """Node id and leader epoch, for a producer that asked the wrong node; encoded from version 10 on."""


if TYPE_CHECKING:
    TopicResult = tuple[str | None, bytes | None, list[PartitionResult]]


def encode_produce_response(
    version: int,
    topics: Sequence[TopicResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytearray:
    """The body of a response; `node_endpoints` tells where the leaders named in it are (from version 10 on)."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise UnsupportedVersion("ProduceResponse", version)
    out = bytearray()
    try:
        if version >= FLEXIBLE_FROM:
            _encode_flexible(out, version, topics)
            if node_endpoints and version >= LEADERS_FROM:
                out += _pack_i(throttle_time_ms)
                append_node_endpoints(out, node_endpoints)
            else:
                out += _pack_i_tags(throttle_time_ms)
        else:
            _encode_classic(out, version, topics)
            out += _pack_i(throttle_time_ms)
    except struct_error as error:
        raise UnencodableValue(f"ProduceResponse version {version}: {error}") from error
    return out


def encode_appended(version: int, topics: Sequence[TopicResult]) -> bytes:
    """`encode_produce_response` where nothing went wrong. The answer to a request with one batch, which most are, is
    packed in few steps."""
    if version < FLEXIBLE_FROM or len(topics) != 1 or len(topics[0][2]) != 1:
        return bytes(encode_produce_response(version, topics))
    name, topic_id, [result] = topics[0]
    out = BytesWriter()
    out.append(2)
    if version >= TOPIC_IDS_FROM:
        assert topic_id is not None
        out.write(topic_id)
    else:
        assert name is not None
        write_string(out, name)
    out.append(2)
    write_i32_be(out, result.index)
    write_i16_be(out, 0)
    write_i64_be(out, result.base_offset)
    write_i64_be(out, result.log_append_time_ms)
    write_i64_be(out, result.log_start_offset)
    out.write(_BEHIND_ONE)
    return out.getvalue()


def _encode_flexible(out: bytearray, version: int, topics: Sequence[TopicResult]) -> None:
    n = len(topics) + 1
    out += encode_long_size(n) if n > 127 else bytes((n,))
    for name, topic_id, results in topics:
        if version >= TOPIC_IDS_FROM:
            assert topic_id is not None
            out += topic_id
        else:
            assert name is not None
            append_compact_string(out, name)
        n = len(results) + 1
        if n < 128:
            out.append(n)
        else:
            out += encode_long_size(n)
        for result in results:
            fixed = _pack_v9(
                result.index,
                result.error_code,
                result.base_offset,
                result.log_append_time_ms,
                result.log_start_offset,
                1,
                0,
                0,
            )
            if result.error_message is None and not result.record_errors and result.current_leader is None:
                out += fixed
            else:
                # What else there is to say stands in place of the last three bytes.
                out += fixed[:-3]
                _append_details_flexible(out, version, result)
        out.append(0)


def _append_details_flexible(out: bytearray, version: int, result: PartitionResult) -> None:
    n = len(result.record_errors) + 1
    out += encode_long_size(n) if n > 127 else bytes((n,))
    for batch_index, message in result.record_errors:
        out += _pack_i(batch_index)
        append_compact_string(out, message)
        out.append(0)
    append_compact_string(out, result.error_message)
    leader = result.current_leader
    if leader is not None and leader != _UNKNOWN_LEADER and version >= LEADERS_FROM:
        out.append(1)
        append_tagged(out, 0, _pack_ii_tags(*leader))
    else:
        out.append(0)


def _encode_classic(out: bytearray, version: int, topics: Sequence[TopicResult]) -> None:
    out += _pack_i(len(topics))
    for name, _, results in topics:
        assert name is not None
        append_string(out, name)
        out += _pack_i(len(results))
        for result in results:
            fixed = result.index, result.error_code, result.base_offset, result.log_append_time_ms
            if version < 5:
                out += _pack_v3(*fixed)
            elif version < 8:
                out += _pack_v5(*fixed, result.log_start_offset)
            elif result.error_message is None and not result.record_errors:
                out += _pack_v8(*fixed, result.log_start_offset, 0, -1)
            else:
                out += _pack_v5(*fixed, result.log_start_offset)
                out += _pack_i(len(result.record_errors))
                for batch_index, message in result.record_errors:
                    out += _pack_i(batch_index)
                    append_string(out, message)
                append_string(out, result.error_message)

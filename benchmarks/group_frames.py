"""The frames that light members send, and what they read of the answers: written and read by hand.

A client that decodes whole messages costs more than the broker it measures. Versions are the newest of Kafka 4.3, all
flexible; the tests hold these frames against the generated codecs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tidelog.protocol.headers import encode_request_header
from tidelog.protocol.hot_wire import read_bytes, read_nullable_string, read_string
from tidelog.protocol.wire import append_compact_bytes, append_compact_count, append_compact_string, decode_long_size

JOIN, SYNC, CONSUMER_HEARTBEAT = (11, 9), (14, 5), (68, 1)
"""Api key and version."""
CORRELATION_ID = 1
CLIENT_ID = "member"
SESSION_MS = 45_000
REBALANCE_MS = 120_000
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
BODY = 5
"""Where the body of a flexible answer begins: correlation id, no tags."""

_SIZE = Struct(">i")
_TIMEOUTS = Struct(">ii")
_JOINED = Struct(">4xhi")
_ERROR = Struct(">4xh")
_EPOCH = Struct(">i4xB")


def _begun(api: tuple[int, int]) -> bytearray:
    return bytearray(4) + encode_request_header(*api, CORRELATION_ID, CLIENT_ID)


def _ended(out: bytearray) -> bytes:
    """Without tags, and with the size that begins a frame."""
    out.append(0)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def join_frame(group: str, member_id: str, subscription: bytes) -> bytes:
    out = _begun(JOIN)
    append_compact_string(out, group)
    out += _TIMEOUTS.pack(SESSION_MS, REBALANCE_MS)
    append_compact_string(out, member_id)
    append_compact_string(out, None)
    append_compact_string(out, PROTOCOL_TYPE)
    append_compact_count(out, 1)
    append_compact_string(out, PROTOCOL)
    append_compact_bytes(out, subscription)
    out.append(0)
    append_compact_string(out, None)
    return _ended(out)


class Joined(NamedTuple):
    error_code: int
    generation: int
    member_id: str
    members: Sequence[str]
    """For the leader."""


def read_joined(frame: bytes) -> Joined:
    error_code, generation = _JOINED.unpack_from(frame, BODY)
    at = BODY + _JOINED.size
    for _ in ("protocol type", "protocol"):
        _, at = read_nullable_string(frame, at)
    _, at = read_string(frame, at)
    member_id, at = read_string(frame, at + 1)
    count, at = decode_long_size(frame, at)
    members = []
    for _ in range(count - 1):
        member, at = read_string(frame, at)
        _, at = read_nullable_string(frame, at)
        _, at = read_bytes(frame, at)
        at += 1
        members.append(member)
    return Joined(error_code, generation, member_id, members)


def sync_frame(group: str, member_id: str, generation: int, assignments: Sequence[tuple[str, bytes]]) -> bytes:
    out = _begun(SYNC)
    append_compact_string(out, group)
    out += _SIZE.pack(generation)
    append_compact_string(out, member_id)
    append_compact_string(out, None)
    append_compact_string(out, PROTOCOL_TYPE)
    append_compact_string(out, PROTOCOL)
    append_compact_count(out, len(assignments))
    for member, assignment in assignments:
        append_compact_string(out, member)
        append_compact_bytes(out, assignment)
        out.append(0)
    return _ended(out)


@lru_cache(maxsize=4096)
def range_assignment(topic: str, first: int, end: int) -> bytes:
    """These partitions as the range assignor hands them out."""
    topics = [TopicPartition(topic=topic, partitions=list(range(first, end)))]
    return b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=topics).encode(1)


def read_synced(frame: bytes) -> tuple[int, bytes]:
    """Error code and assignment."""
    error_code: int = _ERROR.unpack_from(frame, BODY)[0]
    at = BODY + _ERROR.size
    for _ in ("protocol type", "protocol"):
        _, at = read_nullable_string(frame, at)
    return error_code, read_bytes(frame, at)[0]


def report_frame(group: str, member_id: str, epoch: int, owned: bytes | None) -> bytes:
    """A heartbeat of the new protocol; `owned` as `read_beat` gave it, None when nothing has changed."""
    out = _begun(CONSUMER_HEARTBEAT)
    append_compact_string(out, group)
    append_compact_string(out, member_id)
    out += _SIZE.pack(epoch)
    out += b"\0\0\xff\xff\xff\xff\0\0\0"
    out += b"\0" if owned is None else owned
    return _ended(out)


class Beat(NamedTuple):
    error_code: int
    epoch: int
    assignment: bytes | None
    """Topics and partitions as they came, which is how they are reported back; None: as before."""


def read_beat(frame: bytes) -> Beat:
    error_code: int = _ERROR.unpack_from(frame, BODY)[0]
    at = BODY + _ERROR.size
    for _ in ("error message", "member id"):
        _, at = read_nullable_string(frame, at)
    epoch, has_assignment = _EPOCH.unpack_from(frame, at)
    # An assignment ends as the message does: with no tags.
    assignment = bytes(frame[at + _EPOCH.size : -2]) if has_assignment == 1 else None
    return Beat(error_code, epoch, assignment)


def partition_count(assignment: bytes) -> int:
    topics, at = decode_long_size(assignment, 0)
    total = 0
    for _ in range(topics - 1):
        count, at = decode_long_size(assignment, at + 16)
        total += count - 1
        at += 4 * (count - 1) + 1
    return total

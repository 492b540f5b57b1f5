"""Messages of the quorum as bytes: an envelope that names sender and destination, then the message.

Fixed-width numbers in network order; strings and byte fields have their size in front. Entries travel as the batches
they are in the log. Whatever cannot be read as a whole message raises MalformedMessage: sizes are checked against the
bytes that are there, entries must be whole, have right checksums, follow one another and be of no later term.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error

from tidelog.model.errors import BrokerError
from tidelog.model.limits import RAFT_SNAPSHOT_PART_BYTES
from tidelog.model.value import Value
from tidelog.protocol.errors import MalformedMessage
from tidelog.raft.core.effects import SendAppend, SendSnapshot
from tidelog.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    Entry,
    LogEnd,
    Message,
    RefusalResponse,
    SnapshotId,
    SnapshotRequest,
    SnapshotResponse,
    TimeoutNowRequest,
    TimeoutNowResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.entries import decode_entries
from tidelog.raft.quorum_state import TERM_MAX

RAFT_VERSION = 0
CLUSTER_ID_BYTES_MAX = 255
REASON_BYTES_MAX = 1000

_HEAD = Struct(">BBi16si16siq")
"""Format, message type, source and its directory, destination and its directory, term, request id."""
_FORMAT = 1
_VOTE = Struct(">??iq")
_VOTE_RESPONSE = Struct(">??")
_APPEND = Struct(">qiqqI")
_APPEND_RESPONSE = Struct(">?qiq")
_SNAPSHOT = Struct(">qiq?I")
_SNAPSHOT_RESPONSE = Struct(">qiq?")
_SIZE = Struct(">H")

VOTE, APPEND, SNAPSHOT, TIMEOUT_NOW = 1, 2, 3, 4
VOTE_RESPONSE, APPEND_RESPONSE, SNAPSHOT_RESPONSE, TIMEOUT_NOW_RESPONSE, REFUSAL = 65, 66, 67, 68, 69


class Envelope(Value):
    cluster_id: str
    source_id: int
    source_directory: bytes
    destination_id: int
    destination_directory: bytes


def _encode(envelope: Envelope, kind: int, term: int, request_id: int, *body: bytes) -> bytes:
    cluster = envelope.cluster_id.encode()
    head = _HEAD.pack(
        _FORMAT,
        kind,
        envelope.source_id,
        envelope.source_directory,
        envelope.destination_id,
        envelope.destination_directory,
        term,
        request_id,
    )
    return b"".join((head, bytes((len(cluster),)), cluster, *body))


def encode_append(envelope: Envelope, append: SendAppend, batches: bytes) -> bytes:
    fixed = _APPEND.pack(append.prev_offset, append.prev_term, append.commit_offset, append.round, len(batches))
    return _encode(envelope, APPEND, append.term, append.request_id, fixed, batches)


def encode_snapshot_part(envelope: Envelope, part: SendSnapshot, data: bytes, *, is_last: bool) -> bytes:
    fixed = _SNAPSHOT.pack(*part.snapshot, part.position, is_last, len(data))
    return _encode(envelope, SNAPSHOT, part.term, part.request_id, fixed, data)


def encode_message(envelope: Envelope, message: Message) -> bytes:
    """Any message; AppendRequest and SnapshotRequest are usually written from the log (see above)."""
    term, request_id = message.term, message.request_id
    match message:
        case VoteRequest():
            body = _VOTE.pack(message.is_pre_vote, message.is_transfer, *message.log_end)
            return _encode(envelope, VOTE, term, request_id, body)
        case VoteResponse():
            body = _VOTE_RESPONSE.pack(message.is_pre_vote, message.granted)
            return _encode(envelope, VOTE_RESPONSE, term, request_id, body)
        case AppendRequest():
            batches = b"".join(entry.data for entry in message.entries)
            body = _APPEND.pack(
                message.prev_offset, message.prev_term, message.commit_offset, message.round, len(batches)
            )
            return _encode(envelope, APPEND, term, request_id, body, batches)
        case AppendResponse():
            body = _APPEND_RESPONSE.pack(message.success, message.match_offset, message.match_term, message.round)
            return _encode(envelope, APPEND_RESPONSE, term, request_id, body)
        case SnapshotRequest():
            body = _SNAPSHOT.pack(*message.snapshot, message.position, message.is_last, len(message.data))
            return _encode(envelope, SNAPSHOT, term, request_id, body, message.data)
        case SnapshotResponse():
            body = _SNAPSHOT_RESPONSE.pack(*message.snapshot, message.next_position, message.is_installed)
            return _encode(envelope, SNAPSHOT_RESPONSE, term, request_id, body)
        case TimeoutNowRequest():
            return _encode(envelope, TIMEOUT_NOW, term, request_id)
        case TimeoutNowResponse():
            return _encode(envelope, TIMEOUT_NOW_RESPONSE, term, request_id)
        case RefusalResponse():
            reason = message.reason.encode()[:REASON_BYTES_MAX]
            return _encode(envelope, REFUSAL, term, request_id, _SIZE.pack(len(reason)), reason)


def decode_message(body: bytes) -> tuple[Envelope, Message]:
    try:
        number, kind, source, source_directory, destination, destination_directory, term, request_id = (
            _HEAD.unpack_from(body)
        )
        if number != _FORMAT:
            raise MalformedMessage(f"a quorum message in format {number}; {_FORMAT} is known")
        start = _HEAD.size + 1
        end = start + body[_HEAD.size]
        cluster_id = str(body[start:end], "utf-8")
        decode = _DECODERS.get(kind)
        if decode is None:
            raise MalformedMessage(f"a quorum message of unknown type {kind}")
        if not 0 <= term <= TERM_MAX or source < 0 or destination < 0 or request_id < 0 or end > len(body):
            raise MalformedMessage("a quorum message with impossible numbers")
        message, end = decode(body, end, term, request_id)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"quorum message: {error}") from None
    except BrokerError as error:
        raise MalformedMessage(error.message) from None
    if end != len(body):
        raise MalformedMessage("a quorum message that does not end where its bytes end")
    return Envelope(cluster_id, source, source_directory, destination, destination_directory), message


def _decode_vote(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    is_pre_vote, is_transfer, last_term, offset = _VOTE.unpack_from(body, pos)
    _check(0 <= last_term <= term and offset >= 0)
    log_end = LogEnd(last_term, offset)
    message = VoteRequest(
        term=term, request_id=request_id, is_pre_vote=is_pre_vote, is_transfer=is_transfer, log_end=log_end
    )
    return message, pos + _VOTE.size


def _decode_vote_response(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    is_pre_vote, granted = _VOTE_RESPONSE.unpack_from(body, pos)
    message = VoteResponse(term=term, request_id=request_id, is_pre_vote=is_pre_vote, granted=granted)
    return message, pos + _VOTE_RESPONSE.size


def _decode_append(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    prev_offset, prev_term, commit_offset, number, size = _APPEND.unpack_from(body, pos)
    pos += _APPEND.size
    _check(prev_offset >= 0 and -1 <= prev_term <= term and commit_offset >= 0 and number >= 0)
    _check(size == len(body) - pos)
    entries: list[Entry] = []
    end, last_term = prev_offset, prev_term
    for entry in decode_entries(bytes(body[pos:]), verify=True):
        _check(entry.base_offset == end and last_term <= entry.term <= term)
        end, last_term = entry.end_offset, entry.term
        entries.append(entry)
    message = AppendRequest(
        term=term,
        request_id=request_id,
        prev_offset=prev_offset,
        prev_term=prev_term,
        entries=tuple(entries),
        commit_offset=commit_offset,
        round=number,
    )
    return message, pos + size


def _decode_append_response(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    success, match_offset, match_term, number = _APPEND_RESPONSE.unpack_from(body, pos)
    _check(match_offset >= 0 and match_term >= 0 and number >= 0)
    message = AppendResponse(
        term=term,
        request_id=request_id,
        success=success,
        match_offset=match_offset,
        match_term=match_term,
        round=number,
    )
    return message, pos + _APPEND_RESPONSE.size


def _decode_snapshot(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    end_offset, snapshot_term, position, is_last, size = _SNAPSHOT.unpack_from(body, pos)
    pos += _SNAPSHOT.size
    _check(end_offset > 0 and 0 <= snapshot_term <= term and position >= 0)
    _check(size == len(body) - pos and size <= RAFT_SNAPSHOT_PART_BYTES)
    message = SnapshotRequest(
        term=term,
        request_id=request_id,
        snapshot=SnapshotId(end_offset, snapshot_term),
        position=position,
        data=bytes(body[pos:]),
        is_last=is_last,
    )
    return message, pos + size


def _decode_snapshot_response(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    end_offset, snapshot_term, position, is_installed = _SNAPSHOT_RESPONSE.unpack_from(body, pos)
    _check(end_offset > 0 and snapshot_term >= 0 and position >= 0)
    message = SnapshotResponse(
        term=term,
        request_id=request_id,
        snapshot=SnapshotId(end_offset, snapshot_term),
        next_position=position,
        is_installed=is_installed,
    )
    return message, pos + _SNAPSHOT_RESPONSE.size


def _decode_timeout_now(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    return TimeoutNowRequest(term=term, request_id=request_id), pos


def _decode_timeout_now_response(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    return TimeoutNowResponse(term=term, request_id=request_id), pos


def _decode_refusal(body: bytes, pos: int, term: int, request_id: int) -> tuple[Message, int]:
    (size,) = _SIZE.unpack_from(body, pos)
    pos += _SIZE.size
    _check(size == len(body) - pos and size <= REASON_BYTES_MAX)
    return RefusalResponse(term=term, request_id=request_id, reason=str(body[pos:], "utf-8", "replace")), pos + size


def _check(is_possible: bool) -> None:
    if not is_possible:
        raise MalformedMessage("a quorum message with impossible numbers")


_DECODERS: dict[int, Callable[[bytes, int, int, int], tuple[Message, int]]] = {
    VOTE: _decode_vote,
    APPEND: _decode_append,
    SNAPSHOT: _decode_snapshot,
    TIMEOUT_NOW: _decode_timeout_now,
    VOTE_RESPONSE: _decode_vote_response,
    APPEND_RESPONSE: _decode_append_response,
    SNAPSHOT_RESPONSE: _decode_snapshot_response,
    TIMEOUT_NOW_RESPONSE: _decode_timeout_now_response,
    REFUSAL: _decode_refusal,
}

"""Messages of the quorum: what is written is read again, and hostile bytes are refused as such."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.errors import MalformedMessage
from tidelog.raft.codec import Envelope, decode_message, encode_message
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    Entry,
    EntryKind,
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
from tidelog.raft.entries import build_members_batch, decode_entries
from tidelog.records.builder import NewRecord, build_batch

TERM = st.integers(0, 2**31 - 1)
OFFSET = st.integers(0, 2**62)
NUMBER = st.integers(0, 2**62)
DIRECTORY = st.binary(min_size=16, max_size=16)
NODE = st.integers(0, 2**31 - 1)

ENVELOPES = st.builds(
    Envelope,
    cluster_id=st.text(max_size=40),
    source_id=NODE,
    source_directory=DIRECTORY,
    destination_id=NODE,
    destination_directory=DIRECTORY,
)
MEMBERS = st.lists(st.builds(Member, NODE, DIRECTORY, st.text(max_size=20), st.integers(0, 65535)), max_size=6)


@st.composite
def member_sets(draw: Callable[..., list[Member]]) -> MemberSet:
    members = sorted({each.node_id: each for each in draw(MEMBERS)}.values(), key=lambda each: each.node_id)
    return MemberSet(tuple(members[::2]), tuple(members[1::2]))


@st.composite
def append_requests(draw: Callable[..., object]) -> AppendRequest:
    prev_offset, prev_term = draw(st.integers(0, 1000)), draw(st.integers(0, 5))
    assert isinstance(prev_offset, int)
    assert isinstance(prev_term, int)
    offset, term, entries = prev_offset, prev_term, []
    for _ in range(draw(st.integers(0, 4))):  # type: ignore[call-overload]
        term += draw(st.integers(0, 2))  # type: ignore[operator]
        if draw(st.booleans()):
            members = draw(member_sets())
            assert isinstance(members, MemberSet)
            data = build_members_batch(members, base_offset=offset, term=term, now_ms=5)
            entries.append(Entry(offset, offset + 2, term, EntryKind.MEMBERS, data, members))
        else:
            values = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=3))
            assert isinstance(values, list)
            records = [NewRecord(None, value, 5) for value in values]
            data = build_batch(records, base_offset=offset, partition_leader_epoch=term)
            entries.append(Entry(offset, offset + len(values), term, EntryKind.RECORDS, data))
        offset = entries[-1].end_offset
    return AppendRequest(
        term=term + 1,
        request_id=1,
        prev_offset=prev_offset,
        prev_term=prev_term,
        entries=tuple(entries),
        commit_offset=offset,
        round=3,
    )


SNAPSHOT = st.builds(SnapshotId, st.integers(1, 2**62), st.integers(0, 1000))
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        VoteRequest,
        term=st.integers(1000, 2**31 - 1),
        request_id=NUMBER,
        is_pre_vote=st.booleans(),
        is_transfer=st.booleans(),
        log_end=st.builds(LogEnd, st.integers(0, 1000), OFFSET),
    ),
    st.builds(VoteResponse, term=TERM, request_id=NUMBER, is_pre_vote=st.booleans(), granted=st.booleans()),
    append_requests(),
    st.builds(
        AppendResponse,
        term=TERM,
        request_id=NUMBER,
        success=st.booleans(),
        match_offset=OFFSET,
        match_term=TERM,
        round=NUMBER,
    ),
    st.builds(
        SnapshotRequest,
        term=st.integers(1000, 2**31 - 1),
        request_id=NUMBER,
        snapshot=SNAPSHOT,
        position=NUMBER,
        data=st.binary(max_size=100),
        is_last=st.booleans(),
    ),
    st.builds(
        SnapshotResponse,
        term=TERM,
        request_id=NUMBER,
        snapshot=SNAPSHOT,
        next_position=NUMBER,
        is_installed=st.booleans(),
    ),
    st.builds(TimeoutNowRequest, term=TERM, request_id=NUMBER),
    st.builds(TimeoutNowResponse, term=TERM, request_id=NUMBER),
    st.builds(RefusalResponse, term=TERM, request_id=NUMBER, reason=st.text(max_size=50)),
)


@given(ENVELOPES, MESSAGES)
def test_messages_round_trip(envelope: Envelope, message: Message) -> None:
    assert decode_message(encode_message(envelope, message)) == (envelope, message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    with suppress(MalformedMessage):
        decode_message(body)


@given(ENVELOPES, MESSAGES, st.data())
def test_a_message_with_changed_bytes_is_read_or_refused(
    envelope: Envelope, message: Message, data: st.DataObject
) -> None:
    body = bytearray(encode_message(envelope, message))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for bytes_read in (bytes(body), bytes(body[:cut]), bytes(body) + b"\0"):
        try:
            _, read = decode_message(bytes_read)
        except MalformedMessage:
            continue
        if isinstance(read, AppendRequest):
            ends = [read.prev_offset, *(entry.end_offset for entry in read.entries)]
            assert [entry.base_offset for entry in read.entries] == ends[:-1]


@given(append_requests(), st.data())
def test_a_damaged_entry_is_never_taken(request: AppendRequest, data: st.DataObject) -> None:
    """Offset and term are outside of a batch's checksum; everything from the attributes on is inside."""
    if not request.entries:
        return
    envelope = Envelope("c", 1, bytes(16), 2, bytes(16))
    body = bytearray(encode_message(envelope, request))
    last = request.entries[-1]
    position = len(body) - len(last.data) + data.draw(st.integers(21, len(last.data) - 1))
    body[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(MalformedMessage):
        decode_message(bytes(body))


@given(member_sets())
def test_configurations_round_trip(members: MemberSet) -> None:
    batch = build_members_batch(members, base_offset=7, term=3, now_ms=1)
    [entry] = decode_entries(batch, verify=True)
    assert (entry.base_offset, entry.end_offset, entry.term, entry.kind) == (7, 9, 3, EntryKind.MEMBERS)
    assert entry.members == members

"""Correlation ids, frames and bad answers, without a socket."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from tidelog.net.client.conversation import Conversation, decode_answer
from tidelog.net.client.errors import BadAnswer
from tidelog.net.framing import FrameError
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.headers import decode_request_header

HEARTBEAT = 12
VERSION = 4
BODY = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(VERSION)


def answer_frame(correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ix", correlation_id) + body


def test_a_request_has_its_size_its_header_and_its_body() -> None:
    conversation: Conversation[None] = Conversation("me")
    data = conversation.encode(HEARTBEAT, VERSION, BODY, None)
    assert unpack(">i", data[:4])[0] == len(data) - 4
    header = decode_request_header(data[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (12, 4, 1, "me")
    assert data[4:][header.body_position :] == BODY


def test_answers_are_matched_in_any_order() -> None:
    conversation: Conversation[str] = Conversation("me")
    for waiter in ("a", "b", "c"):
        conversation.encode(HEARTBEAT, VERSION, BODY, waiter)
    assert (len(conversation), conversation.in_flight_bytes) == (3, 3 * len(BODY))
    matched = [conversation.match((answer_frame(number), 0)) for number in (2, 3, 1)]
    assert [sent.waiter for sent, _ in matched] == ["b", "c", "a"]
    assert {position for _, (_, position) in matched} == {5}
    assert (len(conversation), conversation.in_flight_bytes) == (0, 0)


def test_an_answer_to_no_request_is_an_error() -> None:
    conversation: Conversation[None] = Conversation("me")
    conversation.encode(HEARTBEAT, VERSION, BODY, None)
    conversation.match((answer_frame(1), 0))
    for correlation_id in (1, 2, -1):
        with pytest.raises(FrameError, match=f"correlation id {correlation_id} belongs to no request"):
            conversation.match((answer_frame(correlation_id), 0))


def test_an_answer_whose_header_cannot_be_read_is_an_error() -> None:
    conversation: Conversation[None] = Conversation("me")
    conversation.encode(HEARTBEAT, VERSION, BODY, None)
    with pytest.raises(MalformedMessage):
        conversation.match((pack(">iB", 1, 200), 0))


def test_giving_up_returns_what_has_no_answer() -> None:
    conversation: Conversation[int] = Conversation("me")
    for waiter in range(3):
        conversation.encode(HEARTBEAT, VERSION, BODY, waiter)
    conversation.match((answer_frame(2), 0))
    assert [sent.waiter for sent in conversation.give_up()] == [0, 2]
    assert (len(conversation), conversation.in_flight_bytes) == (0, 0)


def test_a_body_that_is_no_such_response_is_a_bad_answer() -> None:
    whole = HeartbeatResponse(error_code=3).encode(VERSION)
    assert decode_answer("node 2", HeartbeatResponse, (b"??" + whole, 2), VERSION).error_code == 3
    with pytest.raises(BadAnswer, match="node 2: "):
        decode_answer("node 2", HeartbeatResponse, (whole[:-1], 0), VERSION)

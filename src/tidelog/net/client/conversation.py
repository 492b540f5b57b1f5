"""The requests of one connection and their answers: bytes in and out, no socket and no clock.

Every request gets a correlation id, and its answer is found by that id. Each request carries what waits for its
answer: a future, a timer, or nothing at all.
"""

from __future__ import annotations

from struct import Struct
from typing import Generic, NamedTuple, TypeVar

from tidelog.model.errors import BrokerError
from tidelog.net.client.errors import BadAnswer
from tidelog.net.framing import Frame, FrameError
from tidelog.protocol.headers import decode_response_header, encode_request_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message

W = TypeVar("W")
M = TypeVar("M", bound=Message)

_pack_size = Struct(">i").pack
_unpack_correlation_id = Struct(">i").unpack_from
_CORRELATION_ID_MAX = 0x7FFFFFFF


class Sent(NamedTuple, Generic[W]):
    """A request that has no answer yet."""

    api_key: int
    version: int
    body_bytes: int
    waiter: W


class Conversation(Generic[W]):
    """Numbers the requests of one connection and matches the answers to them."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._last_correlation_id = 0
        self._in_flight: dict[int, Sent[W]] = {}
        self.in_flight_bytes = 0
        """The bodies of all requests without an answer; 0 when there are none."""

    def __len__(self) -> int:
        """The requests without an answer."""
        return len(self._in_flight)

    @property
    def last_correlation_id(self) -> int:
        return self._last_correlation_id

    def encode_unmatched(self, api_key: int, version: int, body: bytes | bytearray) -> bytes:
        """A frame, without its size, with the next correlation id. Its answer is the caller's business."""
        self._last_correlation_id = (self._last_correlation_id + 1) & _CORRELATION_ID_MAX
        return encode_request_header(api_key, version, self._last_correlation_id, self._client_id) + body

    def encode(self, api_key: int, version: int, body: bytes | bytearray, waiter: W) -> bytes:
        """The request as the peer gets it, with its size in front."""
        self._last_correlation_id = correlation_id = (self._last_correlation_id + 1) & _CORRELATION_ID_MAX
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        self._in_flight[correlation_id] = Sent(api_key, version, len(body), waiter)
        self.in_flight_bytes += len(body)
        return b"".join((_pack_size(len(header) + len(body)), header, body))

    def match(self, frame: Frame) -> tuple[Sent[W], Frame]:
        """The request that the frame answers, and the body of the answer.

        FrameError when the frame answers no request. MalformedMessage when its header cannot be read. Nothing that
        follows on the connection can be trusted then.
        """
        data, start = frame
        correlation_id: int = _unpack_correlation_id(data, start)[0]
        sent = self._in_flight.pop(correlation_id, None)
        if sent is None:
            raise FrameError(f"correlation id {correlation_id} belongs to no request")
        self.in_flight_bytes -= sent.body_bytes
        flexible = is_response_header_flexible(sent.api_key, sent.version)
        return sent, (data, decode_response_header(data, flexible, start)[1])

    def give_up(self) -> list[Sent[W]]:
        """Ends the conversation; returns the requests that get no answer any more."""
        unanswered = list(self._in_flight.values())
        self._in_flight.clear()
        self.in_flight_bytes = 0
        return unanswered


def decode_answer(peer: str, answer: type[M], frame: Frame, version: int) -> M:
    """The body of an answer as a message. BadAnswer when it is not one."""
    data, position = frame
    try:
        return answer.decode(data, position, version)[0]
    except BrokerError as error:
        raise BadAnswer(f"{peer}: {error.message}") from None


def expected_answer(request: Message) -> type[Message]:
    """The class of the response to a request."""
    assert request.API_KEY is not None, "only requests can be sent"
    return response_class(request.API_KEY)

"""One request at a time over a plain socket, for commands, tests and measurements.

A call ends with its answer, or with an `RpcError` when there is none within the deadline. After an error the
connection is of no more use.
"""

from __future__ import annotations

import socket
import time
from struct import Struct
from typing import Any, Self

from tidelog.model import limits
from tidelog.net.client.conversation import Conversation, decode_answer, expected_answer
from tidelog.net.client.errors import BadAnswer, PeerUnreachable, RpcTimedOut
from tidelog.net.client.handshake import Handshake, begin_handshake
from tidelog.net.client.versions import PeerVersions
from tidelog.net.framing import Frame, FrameError
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.message import Message

DEFAULT_TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 << 20
RECEIVE_BYTES_MAX = 1 << 20

_SIZE = Struct(">i")


class BlockingClient:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        software_name: str | None = None,
    ) -> None:
        """`timeout_s` is for opening the connection, for sending each request, and for each answer.

        `software_name`: the connection begins with the question which versions the broker serves. Without it nothing is
        sent that is not asked for.
        """
        self.peer = f"{host}:{port}"
        self._timeout_s = timeout_s
        self._answer_bytes_max = answer_bytes_max
        self.conversation: Conversation[None] = Conversation(client_id)
        self.versions: PeerVersions | None = None
        """What the broker serves; None when it was not asked."""
        self.socket = self._dial(host, port)
        if software_name is not None:
            try:
                self._shake_hands(begin_handshake(self.peer, software_name))
            except BaseException:
                self.close()
                raise

    def _dial(self, host: str, port: int) -> socket.socket:
        """A connection without a word said on it. TLS belongs here."""
        try:
            opened = socket.create_connection((host, port), self._timeout_s)
        except TimeoutError:
            raise RpcTimedOut(f"{self.peer} could not be reached within {self._timeout_s:g} s") from None
        except OSError as error:
            raise PeerUnreachable(f"cannot reach {self.peer}: {error}") from None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _shake_hands(self, handshake: Handshake) -> None:
        try:
            step = next(handshake)
            while True:
                step = handshake.send(self.call_encoded(*step))
        except StopIteration as done:
            self.versions = done.value

    # -- calling -----------------------------------------------------------------------------------------------------

    def call(self, request: Message, version: int) -> Any:
        """Sends the request in the version; returns the response as its generated class."""
        assert request.API_KEY is not None, "only requests can be sent"
        if self.versions is not None:
            self.versions.require(request.API_KEY, version)
        frame = self.call_encoded(request.API_KEY, version, request.encode(version))
        return decode_answer(self.peer, expected_answer(request), frame, version)

    def call_encoded(self, api_key: int, version: int, body: bytes) -> Frame:
        """The same with a body that is encoded already: the answer is a buffer and where the body begins in it."""
        self.send(self.conversation.encode(api_key, version, body, None))
        try:
            return self.conversation.match((self.receive_frame(), 0))[1]
        except (FrameError, MalformedMessage) as error:
            raise BadAnswer(f"{self.peer}: {error}") from None

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        try:
            self.socket.settimeout(self._timeout_s)
            self.socket.sendall(data)
        except TimeoutError:
            raise RpcTimedOut(f"{self.peer} took no request within {self._timeout_s:g} s") from None
        except OSError as error:
            raise PeerUnreachable(f"{self.peer} closed the connection: {error}") from None

    def receive_frame(self) -> bytes:
        """The next answer, without its size."""
        deadline_s = time.monotonic() + self._timeout_s
        size: int = _SIZE.unpack(self._receive(_SIZE.size, deadline_s))[0]
        if not limits.RESPONSE_BYTES_MIN <= size <= self._answer_bytes_max:
            raise BadAnswer(f"{self.peer} does not speak Kafka's protocol")
        return self._receive(size, deadline_s)

    def receive_exactly(self, size: int) -> bytes:
        return self._receive(size, time.monotonic() + self._timeout_s)

    def _receive(self, size: int, deadline_s: float) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            try:
                self.socket.settimeout(max(0.001, deadline_s - time.monotonic()))
                part = self.socket.recv(min(size, RECEIVE_BYTES_MAX))
            except TimeoutError:
                raise RpcTimedOut(f"{self.peer} did not answer within {self._timeout_s:g} s") from None
            except OSError as error:
                raise PeerUnreachable(f"{self.peer} closed the connection: {error}") from None
            if not part:
                raise PeerUnreachable(f"{self.peer} closed the connection")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Bare requests to brokers, for what confluent-kafka has no call for. One question, one answer, no encryption."""

from __future__ import annotations

import argparse
import json
import socket
from typing import Any, Self

from tidelog.cli.clients import ANSWER_SECONDS_MAX, CLIENT_ID, parse_pairs, require_reachable, split_address
from tidelog.cli.errors import CommandError
from tidelog.protocol.headers import decode_response_header, encode_request_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message

FRAME_BYTES_MAX = 64 << 20


class BrokerConnection:
    """A connection to one broker; raises CommandError when it fails."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), ANSWER_SECONDS_MAX)
        except OSError as error:
            raise CommandError(f"cannot reach {self._address}: {error}") from None

    def call(self, request: Message, version: int) -> Any:
        api_key = request.API_KEY
        assert api_key is not None
        answer, position = self._exchange(api_key, version, request.encode(version))
        return response_class(api_key).decode(answer, position, version)[0]

    def call_json(self, api_key: int, body: dict[str, Any]) -> dict[str, Any]:
        """A request of one of Tidelog's own APIs."""
        answer, position = self._exchange(api_key, 0, json.dumps(body).encode())
        return dict(json.loads(answer[position:]))

    def _exchange(self, api_key: int, version: int, body: bytes) -> tuple[bytes, int]:
        self._correlation_id += 1
        frame = encode_request_header(api_key, version, self._correlation_id, CLIENT_ID) + body
        try:
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(self._receive(4), "big")
            if size > FRAME_BYTES_MAX:
                raise CommandError(f"{self._address} does not speak Kafka's protocol")
            answer = self._receive(size)
        except OSError as error:
            raise CommandError(f"{self._address} did not answer: {error}") from None
        _, position = decode_response_header(answer, is_response_header_flexible(api_key, version))
        return answer, position

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(min(size - len(received), 1 << 20))
            if not piece:
                raise CommandError(f"{self._address} closed the connection")
            received += piece
        return bytes(received)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect_broker(args: argparse.Namespace) -> BrokerConnection:
    """A connection to the first broker of --bootstrap that listens."""
    settings = parse_pairs(args.client_settings, "-X")
    if settings.get("security.protocol", "plaintext").lower() != "plaintext":
        raise CommandError("this command talks to plaintext listeners only")
    require_reachable(args)
    failure = CommandError("no broker named")
    for address in args.bootstrap.split(","):
        try:
            return BrokerConnection(*split_address(address.strip()))
        except CommandError as error:
            failure = error
    raise failure

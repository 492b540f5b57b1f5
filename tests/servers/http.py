"""HTTP as tests speak it: one request and its answer, or bytes as they are."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

TIMEOUT_S = 30.0


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    """Over a connection of its own; redirects are not followed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, received, response.read())
    finally:
        connection.close()


def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return ask(port, "GET", path, headers=headers)


def post(port: int, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return ask(port, "POST", path, body, headers)


def post_json(port: int, path: str, value: object) -> HttpAnswer:
    return ask(port, "POST", path, json.dumps(value).encode(), {"Content-Type": "application/json"})


def exchange(port: int, *parts: bytes, ends: bool = True) -> bytes:
    """Sends the parts and returns all that comes until the server ends the connection. With `ends` the client ends its
    own side first, as programs do that have nothing more to ask."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        for part in parts:
            connection.sendall(part)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(1 << 16):
            received += data
    return bytes(received)

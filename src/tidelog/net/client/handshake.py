"""What is said on a new connection before its first request. Pure: both clients drive the same steps.

A handshake yields requests and is sent the bodies of their answers. Today it asks for the peer's versions; SASL's
requests will follow that.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.net.client.conversation import decode_answer
from tidelog.net.client.errors import BadAnswer
from tidelog.net.client.versions import PeerVersions
from tidelog.net.framing import Frame
from tidelog.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.index import ApiKey
from tidelog.protocol.private_apis import NODE_SOFTWARE_NAME
from tidelog.version import __version__

ASKED_VERSION = 3
"""The first version that names the software that asks, and names the features in its answer."""


class Step(NamedTuple):
    """A request of the handshake."""

    api_key: int
    version: int
    body: bytes


Handshake = Generator[Step, Frame, PeerVersions]


def begin_handshake(peer: str, software_name: str) -> Handshake:
    """`software_name`: NODE_SOFTWARE_NAME for a node that calls a node."""
    version = ASKED_VERSION
    while True:
        request = ApiVersionsRequest(client_software_name=software_name, client_software_version=__version__)
        frame = yield Step(ApiKey.API_VERSIONS, version, request.encode(version))
        code = _error_code(frame)
        if code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            # Such an answer is always in version 0, which every broker speaks.
            version = 0
            continue
        if code != ErrorCode.NONE:
            raise BadAnswer(f"{peer} refuses to name its versions: {ErrorCode(code).message}")
        response = decode_answer(peer, ApiVersionsResponse, frame, version)
        return PeerVersions.from_response(peer, response, is_node=software_name == NODE_SOFTWARE_NAME)


def _error_code(frame: Frame) -> int:
    """The first field, which stands in the same place in all versions."""
    data, position = frame
    return int.from_bytes(data[position : position + 2], "big", signed=True)

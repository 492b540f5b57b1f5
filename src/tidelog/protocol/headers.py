"""Request and response headers, written by hand: they are read before the API is known and for every request.

The client id keeps its two-byte size even in the flexible header, so that brokers of any age can read it.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.index import is_flexible
from tidelog.protocol.wire import skip_tags

if TYPE_CHECKING:
    from tidelog.protocol.wire import Buffer

_unpack_fixed: Final = Format(">hhih").unpack_from
_unpack_correlation: Final = Format(">i").unpack_from
_pack_classic: Final = Format(">i").pack
_pack_flexible: Final = Format(">ix").pack
_pack_request: Final = Format(">hhih").pack
_new_header: Final = tuple.__new__
"""Half the cost of the named tuple's own constructor."""


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int
    """Where the body begins in the frame."""


def decode_request_header(frame: Buffer, start: int = 0) -> RequestHeader:
    """Reads the header at `start` of a buffer that ends with its frame.

    An unknown API or version is not an error here: the header of a version yet unknown is as that of the last known.
    """
    try:
        api_key, api_version, correlation_id, n = _unpack_fixed(frame, start)
        pos = start + 10
        if n < 0:
            client_id = None
        else:
            pos += n
            client_id = str(frame[start + 10 : pos], "utf-8")
        if is_flexible(api_key, api_version):
            pos += 1
            if frame[pos - 1]:
                pos = skip_tags(frame, pos, len(frame))
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from None
    if pos > len(frame):
        raise MalformedMessage("request header: the client id ends beyond its bytes")
    return _new_header(RequestHeader, (api_key, api_version, correlation_id, client_id, pos))


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """What a node sends as a client of another."""
    raw = b"" if client_id is None else client_id.encode()
    fixed = _pack_request(api_key, api_version, correlation_id, -1 if client_id is None else len(raw))
    return fixed + raw + (b"\0" if is_flexible(api_key, api_version) else b"")


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """`flexible` as `index.is_response_header_flexible` says."""
    return _pack_flexible(correlation_id) if flexible else _pack_classic(correlation_id)


def decode_response_header(frame: Buffer, flexible: bool, start: int = 0) -> tuple[int, int]:
    """The correlation id and where the body begins."""
    try:
        correlation_id: int = _unpack_correlation(frame, start)[0]
        pos = start + 4
        if flexible:
            pos += 1
            if frame[pos - 1]:
                pos = skip_tags(frame, pos, len(frame))
    except (IndexError, struct_error) as error:
        raise MalformedMessage(f"response header: {error}") from None
    return correlation_id, pos

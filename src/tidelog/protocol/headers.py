"""Request and response headers, written by hand: they are read before the API is known and for every request.

The client id keeps its two-byte size even in the flexible header, so that brokers of any age can read it.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, NamedTuple

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i32_be

from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.index import is_flexible
from tidelog.protocol.wire import skip_tags

if TYPE_CHECKING:
    from tidelog.protocol.wire import Buffer

_unpack_fixed: Final = Format(">hhih").unpack_from
_unpack_behind_version: Final = Format(">ih").unpack_from
_unpack_correlation: Final = Format(">i").unpack_from
_pack_request: Final = Format(">hhih").pack


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
        api_key, api_version, _, _ = _unpack_fixed(frame, start)
    except struct_error as error:
        raise MalformedMessage(f"request header: {error}") from None
    return RequestHeader(
        api_key, api_version, *decode_behind_version(frame, start + 4, is_flexible(api_key, api_version))
    )


def decode_behind_version(frame: Buffer, pos: int, flexible: bool) -> tuple[int, str | None, int]:
    """What follows API key and version in a request header: correlation id, client id, and where the body begins."""
    limit = len(frame)
    client_id = None
    try:
        correlation_id: int
        n: int
        if isinstance(frame, bytes):
            correlation_id, n = read_i32_be(frame, pos), read_i16_be(frame, pos + 4)
        else:
            correlation_id, n = _unpack_behind_version(frame, pos)
        pos += 6
        if n >= 0:
            end = pos + n
            client_id = frame[pos:end].decode() if isinstance(frame, bytes) else str(frame[pos:end], "utf-8")
            pos = end
        if flexible:
            pos += 1
            if frame[pos - 1]:
                pos = skip_tags(frame, pos, limit)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from None
    if pos > limit:
        raise MalformedMessage("request header: the client id ends beyond its bytes")
    return correlation_id, client_id, pos


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """What a node sends as a client of another."""
    raw = b"" if client_id is None else client_id.encode()
    fixed = _pack_request(api_key, api_version, correlation_id, -1 if client_id is None else len(raw))
    return fixed + raw + (b"\0" if is_flexible(api_key, api_version) else b"")


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """`flexible` as `index.is_response_header_flexible` says."""
    out = BytesWriter()
    write_i32_be(out, correlation_id)
    if flexible:
        out.append(0)
    return out.getvalue()


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

"""Records as lines of JSON, in both directions: as streams write them, and as programs send them.

What is written can be sent again: a string is its UTF-8 bytes, any other JSON value its JSON text, and
`{"base64": "..."}` any bytes. Lines are put together by hand, because a stream writes hundreds of thousands a second.
"""

from __future__ import annotations

import binascii
import json
from enum import Enum
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.gateways.http.messages import encode_json
from tidelog.model import limits
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.records.record import Headers, Record

_to_base64: Final = binascii.b2a_base64
_NULL: Final = b"null"
_JSON_BEGINS: Final = frozenset(bytes([each]) for each in b'{["-0123456789tfn \t\r\n')
_NO_HEADERS: Final = b"[]"
_INT64_MAX: Final = 2**63 - 1


# -- out ---------------------------------------------------------------------------------------------------------------


class Encoding(Enum):
    """How keys, values and header values are written."""

    BASE64 = "base64"
    TEXT = "text"
    JSON = "json"


def _base64(data: bytes | None) -> bytes:
    return _NULL if data is None else b'"%b"' % _to_base64(data, newline=False)


def _text(data: bytes | None) -> bytes:
    """A string; what is not UTF-8 is an object that says so."""
    if data is None:
        return _NULL
    try:
        return encode_basestring(data.decode()).encode()
    except UnicodeDecodeError:
        return b'{"base64":"%b"}' % _to_base64(data, newline=False)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_decode_json: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _json(data: bytes | None) -> bytes:
    """The value itself where it is JSON; else as text."""
    if data is None:
        return _NULL
    if data[:1] not in _JSON_BEGINS:
        # Spares an exception, which costs more than all the rest of a line.
        return _text(data)
    try:
        value = _decode_json(data.decode())
    except (ValueError, RecursionError):
        return _text(data)
    # It stands in one line, as it was written where that is possible.
    return data if b"\n" not in data and b"\r" not in data else encode_json(value)


_ENCODERS: Final[Mapping[Encoding, tuple[Callable[[bytes | None], bytes], Callable[[bytes | None], bytes]]]] = {
    Encoding.BASE64: (_base64, _base64),
    Encoding.TEXT: (_text, _text),
    # A key is a name: one of digits does not become a number.
    Encoding.JSON: (_text, _json),
}


class LineFormat:
    """Lines of one stream."""

    __slots__ = ("_encode_key", "_encode_value", "_is_sse", "_topic")

    def __init__(self, topic: str, encoding: Encoding, *, is_sse: bool) -> None:
        self._topic = encode_json(topic).replace(b"%", b"%%")
        self._encode_key, self._encode_value = _ENCODERS[encoding]
        self._is_sse = is_sse

    @property
    def heartbeat(self) -> bytes:
        return b": heartbeat\n\n" if self._is_sse else b"\n"

    def begin(self, read: Mapping[int, int]) -> bytes:
        """What a stream opens with: a client that comes back before the first record names these positions."""
        return b"id: %b\n\n" % event_id(read).encode() if self._is_sse and read else b""

    def fail(self, error: Mapping[str, Any]) -> bytes:
        """The last line of a stream that cannot go on."""
        body = encode_json({"error": error})
        return b"event: error\ndata: %b\n\n" % body if self._is_sse else body + b"\n"

    def write(self, partition: int, records: Iterator[Record], read: dict[int, int], size_max: int) -> list[bytes]:
        """Lines of these records, until they have `size_max` bytes. `read` has the last offset of every partition that
        was read so far, which is what the ids of events say, and is brought up to date."""
        template = b'{"topic":%b,"partition":%d,"offset":%%d,"timestamp":%%d,"key":%%b,"value":%%b,"headers":%%b}\n' % (
            self._topic,
            partition,
        )
        if self._is_sse:
            before = "".join([f"{each}:{last}," for each, last in sorted(read.items()) if each < partition])
            after = "".join([f",{each}:{last}" for each, last in sorted(read.items()) if each > partition])
            template = b"id: %b%d:%%d%b\ndata: %b\n" % (before.encode(), partition, after.encode(), template)
        is_sse, encode_key, encode_value = self._is_sse, self._encode_key, self._encode_value
        lines: list[bytes] = []
        size = 0
        offset = -1
        for offset, timestamp, key, value, headers in records:
            fields = (
                offset,
                timestamp,
                encode_key(key),
                encode_value(value),
                _write_headers(headers, encode_key) if headers else _NO_HEADERS,
            )
            line = template % ((offset, *fields) if is_sse else fields)
            lines.append(line)
            size += len(line)
            if size >= size_max:
                break
        if lines:
            read[partition] = offset
        return lines


def _write_headers(headers: Headers, encode: Callable[[bytes | None], bytes]) -> bytes:
    return b"[%b]" % b",".join([b"[%b,%b]" % (encode_json(name), encode(value)) for name, value in headers])


def event_id(read: Mapping[int, int]) -> str:
    return ",".join([f"{partition}:{offset}" for partition, offset in sorted(read.items())])


def decode_event_id(said: str) -> dict[int, int]:
    """The last offset by partition. Raises ValueError."""
    found: dict[int, int] = {}
    for each in said.split(","):
        partition, colon, offset = each.strip().partition(":")
        digits = offset.removeprefix("-")
        if not colon or not _is_number(partition) or not _is_number(digits) or int(offset) < -1:
            raise ValueError(each[:40])
        found[int(partition)] = int(offset)
    return found


def _is_number(said: str) -> bool:
    return said.isascii() and said.isdigit() and int(said[:20]) <= _INT64_MAX and len(said) < 20


# -- in ----------------------------------------------------------------------------------------------------------------


class WrongLine(Exception):
    """A line that is no record; the message says why."""


class LineRecord(NamedTuple):
    """What a line asks for. Without a partition the key decides, or else nothing does."""

    partition: int | None
    record: NewRecord


_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})


def decode_line(line: bytes | bytearray, now_ms: int) -> LineRecord:
    """Raises WrongLine."""
    try:
        fields = _decode_json(line.decode())
    except (ValueError, RecursionError) as error:
        raise WrongLine(f"The line is not JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise WrongLine('The line must be an object: {"key", "value", "headers", "partition", "timestamp"}.')
    if not fields.keys() <= _FIELDS:
        [unknown, *_] = fields.keys() - _FIELDS
        raise WrongLine(f"{unknown[:40]!r} is none of {', '.join(sorted(_FIELDS))}.")
    headers = fields.get("headers")
    return LineRecord(
        _read_number(fields, "partition", 2**31 - 1),
        NewRecord(
            _read_bytes(fields.get("key"), "key"),
            _read_bytes(fields.get("value"), "value"),
            now_ms if (timestamp := _read_number(fields, "timestamp", _INT64_MAX)) is None else timestamp,
            _read_headers(headers) if headers else (),
        ),
    )


def _read_number(fields: dict[str, Any], name: str, largest: int) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if type(number) is not int or not 0 <= number <= largest:
        raise WrongLine(f"{name} must be a number from 0 to {largest}, or missing.")
    return number


def _read_bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return binascii.a2b_base64(value["base64"], strict_mode=True)
        # As JSON has it: an infinite number, of too many digits, has no JSON text.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise WrongLine(f"{name} has half of a surrogate pair, which has no UTF-8.") from None
    except (ValueError, TypeError, RecursionError):
        raise WrongLine(
            f'{name} must be a string, {{"base64": "..."}}, null or another JSON value that can be written as such.'
        ) from None


def _read_headers(headers: Any) -> Headers:
    """Of an object, or of a list of pairs, in which a name may come several times."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list) or len(pairs) > limits.RECORD_HEADERS_MAX:
        raise WrongLine("headers must be an object, or a list of [name, value].")
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise WrongLine("headers must be an object, or a list of [name, value].")
        _read_bytes(pair[0], "the name of a header")
        found.append((pair[0], _read_bytes(pair[1], f"header {pair[0][:40]!r}")))
    return tuple(found)

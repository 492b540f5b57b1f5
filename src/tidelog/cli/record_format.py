"""How `tidelog consume` writes a record: text, JSON lines, raw values, or a pattern such as kcat's.

A formatter turns one message into bytes, line end included: keys and values are bytes and need not be text. Patterns:
%t topic, %p partition, %o offset, %T timestamp in ms, %k key, %v or %s value, %K and %V or %S their lengths (-1: null),
%h headers, %% a percent sign; \\n \\t \\r \\0 \\\\ and \\xHH as usual.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import UsageError
from tidelog.cli.times import format_time

if TYPE_CHECKING:
    from confluent_kafka import Message

Formatter = Callable[["Message"], bytes]

TIMESTAMP_TYPES = {0: None, 1: "CreateTime", 2: "LogAppendTime"}
"""librdkafka's numbers, which differ by one from those on the wire."""

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
"""Control characters but line feed and tab, those of Latin-1 in UTF-8 too."""

_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)", re.DOTALL)


def make_formatter(text: str, *, for_terminal: bool = False) -> Formatter:
    """The formatter for a `--format`; UsageError for a pattern that makes no sense."""
    if text == "text" and for_terminal:
        return format_text_for_terminal
    named = {"text": format_text, "json": format_json, "raw": format_raw}
    if text in named:
        return named[text]
    if "%" not in text:
        raise UsageError(f"--format is text, json, raw or a pattern with % such as '%p %o %k %v\\n', got {text!r}")
    return compile_pattern(text)


def format_text(message: Message) -> bytes:
    """`partition:offset  time  key  value`, then headers if there are any; null is shown as such."""
    line = b"%d:%d  %s  %s  %s" % (
        message.partition() or 0,
        message.offset() or 0,
        format_time(message.timestamp()[1]).encode(),
        _shown(message.key()),
        _shown(message.value()),
    )
    headers = message.headers()
    if headers:
        line += b"  [" + _join_headers(headers) + b"]"
    return line + b"\n"


def format_text_for_terminal(message: Message) -> bytes:
    """As text, but what records hold cannot move the cursor, clear the screen or send answers: it is shown as \\xHH."""
    return _CONTROL.sub(lambda found: b"".join(b"\\x%02x" % byte for byte in found[0]), format_text(message))


def format_raw(message: Message) -> bytes:
    """The value and a newline; null is an empty line."""
    return (message.value() or b"") + b"\n"


def format_json(message: Message) -> bytes:
    return json.dumps(as_document(message), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def as_document(message: Message) -> dict[str, Any]:
    """The record for programs; bytes that are no UTF-8 become base64 and `..._encoding` says so."""
    timestamp_type, timestamp = message.timestamp()
    document: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(timestamp_type),
    }
    put_content(document, "key", message.key())
    put_content(document, "value", message.value())
    headers = []
    carried: Any = message.headers() or ()
    for name, value in carried:
        header: dict[str, Any] = {"name": name}
        put_content(header, "value", value)
        headers.append(header)
    document["headers"] = headers
    return document


def put_content(document: dict[str, Any], name: str, content: bytes | str | None) -> None:
    """Text as text, other bytes as base64 with `..._encoding` beside it."""
    try:
        document[name] = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        assert isinstance(content, bytes)
        document[name] = base64.b64encode(content).decode("ascii")
        document[f"{name}_encoding"] = "base64"


def compile_pattern(pattern: str) -> Formatter:
    """A formatter for a pattern; the pattern is read once, not per record."""
    parts: list[bytes | Formatter] = []
    position = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != position:
            break
        position = token.end()
        field, hexadecimal, escape, literal = token.groups()
        if field == "%":
            parts.append(b"%")
        elif field is not None:
            if field not in _FIELDS:
                raise UsageError(
                    f"--format knows no %{field}; it knows {' '.join('%' + name for name in _FIELDS)} and %%"
                )
            parts.append(_FIELDS[field])
        elif hexadecimal is not None:
            parts.append(bytes.fromhex(hexadecimal))
        elif escape is not None:
            if escape not in _ESCAPES:
                raise UsageError(f"--format knows no \\{escape}; it knows \\n \\t \\r \\0 \\xHH and \\\\")
            parts.append(_ESCAPES[escape])
        else:
            parts.append(literal.encode())
    if position != len(pattern):
        raise UsageError(f"--format ends in the middle of {pattern[position:]!r}")
    return lambda message: b"".join([part if isinstance(part, bytes) else part(message) for part in parts])


def _length(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)


def _join_headers(headers: Any) -> bytes:
    return b",".join(name.encode() + b"=" + _shown(value) for name, value in headers)


def _shown(content: bytes | str | None) -> bytes:
    if content is None:
        return b"null"
    return content.encode() if isinstance(content, str) else content


_FIELDS: dict[str, Formatter] = {
    "t": lambda message: (message.topic() or "").encode(),
    "p": lambda message: b"%d" % (message.partition() or 0),
    "o": lambda message: b"%d" % (message.offset() or 0),
    "T": lambda message: b"%d" % message.timestamp()[1],
    "k": lambda message: message.key() or b"",
    "v": lambda message: message.value() or b"",
    "s": lambda message: message.value() or b"",
    "K": lambda message: _length(message.key()),
    "V": lambda message: _length(message.value()),
    "S": lambda message: _length(message.value()),
    "h": lambda message: _join_headers(message.headers() or ()),
}

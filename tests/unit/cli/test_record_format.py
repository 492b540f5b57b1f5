"""Formats of consumed records, with messages as the client library hands them out."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Message

from tidelog.cli.errors import UsageError
from tidelog.cli.record_format import as_document, make_formatter


def message(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: list[tuple[str, bytes | None]] | None = None
) -> Message:
    return Message(
        topic="orders", partition=2, offset=17, key=key, value=value, headers=headers, timestamp=(1, 1_794_829_718_213)
    )


def test_text() -> None:
    shown = make_formatter("text")(message(headers=[("a", b"1"), ("b", None)]))
    assert shown == b"2:17  2026-11-16T11:48:38.213Z  k  v  [a=1,b=null]\n"


def test_text_tells_null_from_empty() -> None:
    assert make_formatter("text")(message(key=None, value=b"")) == b"2:17  2026-11-16T11:48:38.213Z  null  \n"


def test_a_terminal_is_safe_from_what_records_hold() -> None:
    hostile = message(key=b"\x1b]0;title\x07", value="grö\tße\nnext\r\x9b31m".encode())
    shown = make_formatter("text", for_terminal=True)(hostile)
    assert shown.endswith("\\x1b]0;title\\x07  grö\tße\nnext\\x0d\\xc2\\x9b31m\n".encode())
    assert b"\x1b" in make_formatter("text")(hostile)
    assert b"\x1b" in make_formatter("%k", for_terminal=True)(hostile)


def test_raw_keeps_every_byte() -> None:
    assert make_formatter("raw")(message(value=b"\x00\xff")) == b"\x00\xff\n"
    assert make_formatter("raw")(message(value=None)) == b"\n"


def test_json_is_one_line() -> None:
    line = make_formatter("json")(message(value="grö\nße".encode(), headers=[("h", b"x")]))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "timestamp": 1_794_829_718_213,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "grö\nße",
        "headers": [{"name": "h", "value": "x"}],
    }


def test_json_says_when_bytes_are_no_text() -> None:
    document = as_document(message(key=None, value=b"\xff\xfe", headers=[("h", b"\xff")]))
    assert (document["key"], document["value"], document["value_encoding"]) == (None, "//4=", "base64")
    assert "key_encoding" not in document
    assert document["headers"] == [{"name": "h", "value": "/w==", "value_encoding": "base64"}]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"%t-%p-%o %k %v\n", b"orders-2-17 k v\n"),
        (r"%s|%S|%K|%V", b"v|1|1|1"),
        (r"%T\t%%\x41\\", b"1794829718213\t%A\\"),
        ("%h", b"a=1,b=2"),
        ("plain %o", b"plain 17"),
        (r"größe %o\0", "größe 17\0".encode()),
    ],
)
def test_patterns(pattern: str, expected: bytes) -> None:
    assert make_formatter(pattern)(message(headers=[("a", b"1"), ("b", b"2")])) == expected


def test_null_has_the_length_minus_one() -> None:
    assert make_formatter("%K %V")(message(key=None, value=b"")) == b"-1 0"


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("%q", "knows no %q"),
        (r"%o\q", r"knows no \\q"),
        ("%o%", "in the middle of '%'"),
        ("yaml", "text, json, raw or a pattern"),
    ],
)
def test_patterns_that_make_no_sense(pattern: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        make_formatter(pattern)

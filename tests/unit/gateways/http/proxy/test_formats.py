"""Keys and values in JSON bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.messages import Body, Request
from tidelog.gateways.http.proxy.errors import FORMAT_MISMATCH, ProxyError
from tidelog.gateways.http.proxy.formats import (
    BINARY_FORMAT,
    BINARY_V2,
    JSON_FORMAT,
    JSON_V2,
    accepted_format,
    encode_records,
)
from tidelog.records.record import Record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_any_json_comes_back(value: Any) -> None:
    assert json.loads(JSON_FORMAT.encode(JSON_FORMAT.decode(value))) == value


@given(st.none() | st.binary())
def test_any_bytes_come_back(data: bytes | None) -> None:
    assert BINARY_FORMAT.decode(json.loads(BINARY_FORMAT.encode(data))) == data


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"a": "\udfff"}])
def test_what_no_json_is(value: Any) -> None:
    with pytest.raises(ValueError, match=r"which no UTF-8 has|that no JSON has"):
        JSON_FORMAT.decode(value)


@pytest.mark.parametrize("value", ["?", "YQ", "YQ==\n", 1, [], {}, True])
def test_what_no_base64_is(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a base64 string"):
        BINARY_FORMAT.decode(value)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\xff", b"NaN", b"[1,Infinity]", b"{}{}", b"\xef\xbb\xbf1", b"[" * 10_000]
)
def test_records_that_are_no_json(data: bytes) -> None:
    with pytest.raises(ProxyError) as refused:
        encode_records(JSON_FORMAT, [("clicks", 3, Record(7, 0, None, data))])
    assert refused.value.number == FORMAT_MISMATCH
    assert "offset 7 of clicks-3" in refused.value.message


def test_json_keeps_its_digits() -> None:
    data = b'{"price": 1.10, "id": 12345678901234567890123}'
    assert data in encode_records(JSON_FORMAT, [("clicks", 0, Record(0, 0, b"1.0", data))])


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", None),
        ("*/*", None),
        (JSON_V2, JSON_FORMAT),
        (f"{BINARY_V2}; q=0.9, {JSON_V2}", BINARY_FORMAT),
        (f"text/html, {JSON_V2.upper()}", JSON_FORMAT),
    ],
)
def test_the_format_that_is_accepted(accept: str, expected: object) -> None:
    request = Request("GET", "/", "", {"accept": accept}, Body(lambda _: None))
    assert accepted_format(request) is expected

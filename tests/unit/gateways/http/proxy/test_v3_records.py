"""Bodies of v3 with one record after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.http.proxy.v3.groups import state_name
from tidelog.gateways.http.proxy.v3.record_objects import ObjectSplitter
from tidelog.gateways.http.proxy.v3.resources import Cluster


def split(body: bytes, sizes: list[int] | None = None, bytes_max: int = 1 << 20) -> list[dict[str, Any] | HttpError]:
    """Fed in parts of these sizes."""
    splitter = ObjectSplitter(bytes_max)
    found = []
    for size in sizes or [len(body)]:
        found += splitter.feed(body[:size])
        body = body[size:]
    found += splitter.feed(body)
    end = splitter.finish()
    return found if end is None else [*found, end]


def statuses(found: list[dict[str, Any] | HttpError]) -> list[int | None]:
    return [each.status if isinstance(each, HttpError) else None for each in found]


NESTED = st.recursive(
    st.none() | st.integers() | st.text('"\\{}[]ab\n', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\{}', max_size=3), inner, max_size=3),
)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), NESTED, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(1, 9), max_size=40),
    st.text(" \t\r\n", max_size=3),
    st.booleans(),
)
def test_objects_in_any_parts(objects: list[dict[str, Any]], sizes: list[int], blanks: str, is_ascii: bool) -> None:
    text = blanks + blanks.join(json.dumps(each, ensure_ascii=is_ascii) for each in objects) + blanks
    assert split(text.encode("utf-8", "surrogatepass"), sizes) == objects


@given(st.binary(max_size=60), st.lists(st.integers(1, 9), max_size=20))
def test_any_bytes_in_any_parts(body: bytes, sizes: list[int]) -> None:
    assert statuses(split(body, sizes)) == statuses(split(body))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b" \n", []),
        (b"[]", [422]),
        (b"]", [400]),
        (b"{} 1 {}", [None, 422]),
        (b'{"a":1]}{"b":1}', [400, None]),
        (b'{"a"', [400]),
        (b'{"a": "\\"}"', [400]),
        (b'{"\xff": 1}', [400]),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, [400]),
    ],
)
def test_what_is_no_object_has_an_error_in_its_place(body: bytes, expected: list[int | None]) -> None:
    assert statuses(split(body)) == expected


def test_an_object_has_a_bounded_size() -> None:
    fits = b'{"a":"' + b"x" * 92 + b'"}'
    assert statuses(split(fits * 3, [50, 100], bytes_max=len(fits))) == [None] * 3
    assert statuses(split(fits * 3, [50, 100], bytes_max=40)) == [413]
    endless = ObjectSplitter(100)
    errors = [error for _ in range(60) for error in endless.feed(b'{"')]
    assert statuses(errors) == [413]


@pytest.mark.parametrize(
    ("state", "shown"),
    [("Stable", "STABLE"), ("PreparingRebalance", "PREPARING_REBALANCE"), ("Empty", "EMPTY"), ("Dead", "DEAD")],
)
def test_states(state: str, shown: str) -> None:
    assert state_name(state) == shown


def test_links_hold_any_name() -> None:
    cluster = Cluster("c/1", "host:80")
    assert cluster.link((("consumer-groups", "a b/c"),), "lags") == (
        "http://host:80/v3/clusters/c%2F1/consumer-groups/a%20b%2Fc/lags"
    )

from __future__ import annotations

import pytest

from tidelog.gateways.grpc.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from tidelog.protocol.errors import MalformedMessage


def test_the_bytes_are_those_of_kafkas_consumers() -> None:
    assert encode_subscription(["b", "a", "a"]) == b"\0\0\0\0\0\2\0\1a\0\1b\xff\xff\xff\xff"
    assert subscribed_topics(encode_subscription(["b", "a"])) == ("a", "b")
    encoded = encode_assignment({"a": [1, 0]})
    assert encoded == b"\0\0\0\0\0\1\0\1a\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    assert decode_assignment(encoded) == {"a": [0, 1]}
    assert decode_assignment(b"") == {}


def test_newer_versions_begin_alike() -> None:
    assert decode_assignment(b"\0\x63" + encode_assignment({"a": [3]})[2:]) == {"a": [3]}


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1"])
def test_other_bytes(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_assignment(data)
    assert subscribed_topics(data) == ()

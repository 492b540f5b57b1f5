"""Replies that are ready, as the queue puts them in and a sender takes them out."""

from __future__ import annotations

import pytest

from tidelog.net.file_region import REGION_BYTES_MIN, FileRegion
from tidelog.net.outgoing import Outgoing
from tidelog.telemetry.metrics import NodeMetrics


def region_of(size: int) -> FileRegion:
    region = FileRegion()
    region.size = size
    return region


def test_every_reply_has_its_size_in_front() -> None:
    metrics = NodeMetrics()
    outgoing = Outgoing(metrics)
    outgoing.add(b"whole")
    assert outgoing.add_parts([b"in ", bytearray(b"three "), memoryview(b"parts")]) == 14
    outgoing.add(b"")
    assert outgoing.take_bytes() == b"\0\0\0\5whole" + b"\0\0\0\x0ein three parts" + bytes(4)
    assert not outgoing.parts
    assert metrics.bytes_out == 5 + 14 + 0 + 3 * 4


@pytest.mark.parametrize(("size", "is_large"), [(REGION_BYTES_MIN - 1, False), (REGION_BYTES_MIN, True)])
def test_only_a_large_reply_is_sent_without_waiting_for_others(size: int, is_large: bool) -> None:
    outgoing = Outgoing(NodeMetrics())
    region = region_of(size)
    outgoing.add_parts([region])
    assert (outgoing.has_region, outgoing.is_large) == (True, is_large)
    assert outgoing.take_parts() == [size.to_bytes(4, "big"), region]
    assert (outgoing.has_region, outgoing.is_large) == (False, False)


def test_what_was_not_sent_is_put_back() -> None:
    outgoing = Outgoing(NodeMetrics())
    outgoing.add_parts([region_of(10), b"behind it"])
    left = outgoing.take_parts()[1:]
    assert not outgoing.parts
    outgoing.put_back(list(left))
    assert outgoing.has_region
    outgoing.add(b"next reply")
    assert outgoing.take_parts() == [*left, b"\0\0\0\x0anext reply"]
    outgoing.put_back(list(left))
    outgoing.clear()
    assert not outgoing.parts
    assert not outgoing.has_region

"""When the socket of a connection is read, with a transport that only notes what it is asked."""

from __future__ import annotations

import asyncio
import time

import pytest

from tidelog.net.budget import BudgetShare
from tidelog.net.outgoing import Outgoing
from tidelog.net.read_gate import ReadGate
from tidelog.net.request_queue import RequestQueue
from tidelog.net.shared import SharedByListeners
from tidelog.telemetry.metrics import NodeMetrics


class NotingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def pause_reading(self) -> None:
        self.notes.append("pause")

    def resume_reading(self) -> None:
        self.notes.append("resume")


class Gated:
    def __init__(self, shared: SharedByListeners) -> None:
        self.share = BudgetShare(shared.budget, 1 << 20)
        self.queue = RequestQueue(self.share, 10, Outgoing(shared.metrics))
        self.transport = NotingTransport()
        self.gate = ReadGate(self.transport, self.queue, shared)


@pytest.fixture
def shared() -> SharedByListeners:
    return SharedByListeners(NodeMetrics(), time.monotonic, budget_bytes=1000)


def test_it_is_paused_once_and_resumed_once(shared: SharedByListeners) -> None:
    one = Gated(shared)
    one.gate.maybe_pause()
    assert one.transport.notes == [], "nothing speaks against reading"
    one.queue.mute()
    for _ in range(2):
        one.gate.maybe_pause()
        one.gate.maybe_resume()
    assert one.transport.notes == ["pause"]
    one.queue.unmute()
    for _ in range(2):
        one.gate.maybe_resume()
    assert one.transport.notes == ["pause", "resume"]
    assert shared.metrics.reads_paused == 1


def test_bytes_that_come_free_elsewhere_resume_it(shared: SharedByListeners) -> None:
    one, other = Gated(shared), Gated(shared)
    other.queue.received(1000)
    one.gate.maybe_pause()
    other.share.release(1)
    assert one.transport.notes == ["pause", "resume"]


def test_a_muted_connection_stays_paused_when_bytes_come_free(shared: SharedByListeners) -> None:
    one, other = Gated(shared), Gated(shared)
    other.queue.received(1000)
    one.queue.mute()
    one.gate.maybe_pause()
    other.share.release(1000)
    assert one.transport.notes == ["pause"]
    one.queue.unmute()
    one.gate.maybe_resume()
    assert one.transport.notes == ["pause", "resume"]


def test_a_connection_that_is_gone_is_not_touched(shared: SharedByListeners) -> None:
    one, other = Gated(shared), Gated(shared)
    other.queue.received(1000)
    one.gate.maybe_pause()
    one.gate.close()
    one.queue.close()
    other.share.release(1000)
    one.gate.maybe_resume()
    assert one.transport.notes == ["pause"]

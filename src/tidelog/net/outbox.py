"""Replies of many connections, sent together.

A reply wakes its client, and waking one whose core sleeps costs a node more than the rest of the call: on a virtual
machine 20 microseconds instead of 7. So replies that become ready in one turn of the loop are not sent one by one, with
requests handled in between, but one right after the other: a process with many connections, a proxy or a neighbour on
the same machine is then awake for all but the first. A burst has at most `REPLIES_PER_BURST_MAX` replies, and
everything goes out at the end of the turn. When one connection is answered twice in a row, only that connection is
active: its reply is sent at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.model import limits

if TYPE_CHECKING:
    from tidelog.net.transport_sender import TransportSender


class Outbox:
    """Of the connections of one listener."""

    __slots__ = ("_is_due", "_last", "_waiting")

    def __init__(self) -> None:
        self._last: TransportSender | None = None
        """Of the connection whose reply came last."""
        self._waiting: list[TransportSender] = []
        self._is_due = False
        """Whether the loop will come back at the end of this turn."""

    def add(self, sender: TransportSender) -> None:
        """`sender.send`, which does not raise, is called once in this turn. It must not be waiting already."""
        if sender is self._last:
            sender.send()
            return
        self._last = sender
        waiting = self._waiting
        waiting.append(sender)
        if len(waiting) >= limits.REPLIES_PER_BURST_MAX:
            self._send_all()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def forget(self, sender: TransportSender) -> None:
        """The sender is closed."""
        if sender is self._last:
            self._last = None

    def _end_turn(self) -> None:
        self._is_due = False
        self._send_all()

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.send()

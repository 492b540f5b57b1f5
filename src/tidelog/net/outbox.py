"""Replies of many connections, sent together.

A reply wakes its client, and waking one whose core sleeps costs a node more than the rest of the call: on a virtual
machine 20 microseconds instead of 7. So replies that become ready in one turn of the loop are not sent one by one, with
requests handled in between, but one right after the other: a process with many connections, a proxy or a neighbour on
the same machine is then awake for all but the first. After so many of them nobody waits any longer
(`REPLIES_PER_BURST_MAX`), and at the end of the turn everything goes out. Who is answered twice in a row is alone, and
does not wait at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.model import limits

if TYPE_CHECKING:
    from tidelog.net.connection import Connection


class Outbox:
    """Of the connections of one listener."""

    __slots__ = ("_is_due", "_last", "_waiting")

    def __init__(self) -> None:
        self._last: Connection | None = None
        """Whose reply came last."""
        self._waiting: list[Connection] = []
        self._is_due = False
        """Whether the loop will come back at the end of this turn."""

    def add(self, connection: Connection) -> None:
        """`connection.send_now` is called once, in this turn; it must not be waiting already."""
        if connection is self._last:
            connection.send_now()
            return
        self._last = connection
        waiting = self._waiting
        waiting.append(connection)
        if len(waiting) >= limits.REPLIES_PER_BURST_MAX:
            self._send_all()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        if connection is self._last:
            self._last = None

    def _end_turn(self) -> None:
        self._is_due = False
        self._send_all()

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            try:
                connection.send_now()
            except Exception as error:
                # One that fails must not keep the others from their replies.
                connection.sending_failed(error)

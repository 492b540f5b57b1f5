"""Sends file regions from the page cache straight to the socket, past the event loop's transport.

Copying a region into this process and out again costs about four times the processor time of `sendfile`, and the
transports of uvloop have no such call. The sender works on a duplicate of the connection's descriptor: it can be
waited for beside the transport, and stays ours even if the transport has closed its own and the number was reused.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from tidelog.net.file_region import FileRegion

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
"""Lets the bytes in front of a region travel in its first packet."""
_TCP_CORK: Final = getattr(socket, "TCP_CORK", 0)
"""Lets the bytes behind a region travel in its last packet: the peer is woken once, when the response is whole."""


Piece = bytes | bytearray | memoryview | FileRegion


class DirectSender:
    """Sends what it is given in order; calls `on_sent` when all is out, `on_failed` when the peer is gone."""

    __slots__ = ("_is_tcp", "_is_waiting", "_loop", "_on_failed", "_on_sent", "_pieces", "_skipped_bytes", "_socket")

    def __init__(self, fd: int, on_sent: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setblocking(False)
        self._is_tcp = self._socket.family in (socket.AF_INET, socket.AF_INET6)
        self._loop = asyncio.get_running_loop()
        self._on_sent = on_sent
        self._on_failed = on_failed
        self._pieces: deque[Piece] = deque()
        self._skipped_bytes = 0
        """How much of the first piece is out already."""
        self._is_waiting = False

    @property
    def is_busy(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: deque[Piece]) -> bool:
        """Takes over the pieces; True when they are out already (`on_sent` is then not called)."""
        assert not self._pieces, "one response at a time"
        self._pieces = pieces
        return self._push(is_first=True)

    def _cork(self, is_corked: bool) -> None:
        if _TCP_CORK and self._is_tcp:
            self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, is_corked)

    def _push(self, is_first: bool) -> bool:
        try:
            if is_first:
                self._cork(True)
            while self._pieces:
                self._send_first()
            self._cork(False)
        except BlockingIOError:
            if not self._is_waiting:
                self._is_waiting = True
                self._loop.add_writer(self._socket.fileno(), self._writable)
            return False
        except OSError as error:
            self.close()
            self._on_failed(error)
            return False
        return True

    def _send_first(self) -> None:
        piece = self._pieces[0]
        skipped = self._skipped_bytes
        if isinstance(piece, (bytes, bytearray, memoryview)):
            flags = _MSG_MORE if len(self._pieces) > 1 else 0
            size = len(piece)
            sent = self._socket.send(memoryview(piece)[skipped:], flags) if size else 0
        else:
            size = piece.size
            sent = piece.send_to(self._socket.fileno(), skipped)
            if sent == 0:
                raise OSError(f"the log ends {size - skipped} bytes before the region that was promised")
        if skipped + sent == size:
            self._pieces.popleft()
            self._skipped_bytes = 0
        else:
            self._skipped_bytes = skipped + sent

    def _writable(self) -> None:
        if self._push(is_first=False):
            self._stop_waiting()
            self._on_sent()

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        """Lets go of the duplicate; the connection ends when the transport lets go of its own as well."""
        if self._socket.fileno() >= 0:
            self._stop_waiting()
            self._pieces.clear()
            self._socket.close()

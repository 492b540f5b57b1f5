"""The side of a connection that the event loop sees.

A class of its own because `Connection` may be compiled, compiled classes have no interpreted bases, and loops look
whether a protocol is a BufferedProtocol. Nothing is forwarded: the methods are the connection's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.net.connection import Connection


class ConnectionProtocol(asyncio.BufferedProtocol):
    __slots__ = (
        "buffer_updated",
        "connection_lost",
        "connection_made",
        "eof_received",
        "get_buffer",
        "pause_writing",
        "resume_writing",
    )

    def __init__(self, connection: Connection) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(connection, name))

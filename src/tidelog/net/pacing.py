"""Connections within one machine are not paced.

BBR, the default congestion control of many servers, spreads what is sent over time by a timer per packet. Between two
processes of one machine there is no bandwidth to find out, and the timers cost more processor time than everything else
that serving records takes: on a virtual machine each is an exit to the hypervisor. A connection that was ever paced
stays so, hence it begins without, and peers on other machines get back what the administrator has chosen.
"""

from __future__ import annotations

import socket
from typing import Final

_TCP_CONGESTION: Final[int | None] = getattr(socket, "TCP_CONGESTION", None)
_NAME_BYTES_MAX: Final = 16
_PACING: Final = b"bbr"
_UNPACED: Final = b"reno"
"""Part of every Linux kernel, and allowed to every user."""


def stop_pacing(listening: socket.socket) -> bytes | None:
    """What is accepted here is not paced; returns what to `resume_pacing` with, None if nothing was changed."""
    if _TCP_CONGESTION is None:
        return None
    try:
        chosen = listening.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _NAME_BYTES_MAX).rstrip(b"\0")
        if not chosen.startswith(_PACING):
            return None
        listening.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _UNPACED)
    except OSError:
        # A kernel or sandbox that does not let us: slower, and right all the same.
        return None
    return chosen


def resume_pacing(accepted: socket.socket, peer_host: str, chosen: bytes) -> None:
    """Gives a connection from another machine the congestion control that this one is set up with."""
    if _TCP_CONGESTION is not None and not is_loopback(peer_host):
        accepted.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, chosen)


def is_loopback(host: str) -> bool:
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"

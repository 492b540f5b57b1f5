"""What the layers above see of the client or node at the other end of a connection."""

from __future__ import annotations

from collections.abc import Callable


class Peer:
    __slots__ = ("caller", "client_software", "listener_name", "on_lost", "peer_host", "peer_port")

    def __init__(self, listener_name: str) -> None:
        self.listener_name = listener_name
        self.peer_host = ""
        self.peer_port = 0
        self.client_software: tuple[str, str] | None = None
        """Name and version the client gave in ApiVersions."""
        self.caller: object | None = None
        """What the dispatcher keeps about the client, for as long as the connection lasts."""
        self.on_lost: Callable[[], None] | None = None
        """Called once when the connection is gone."""

    def came_from(self, host: str, port: int) -> None:
        self.peer_host = host
        self.peer_port = port

    def close(self, reason: str, detail: str = "") -> None:
        """Closes after the replies that are ready; unanswered requests stay unanswered.

        `reason` is one of telemetry's CLOSE_REASONS, `detail` is for people.
        """
        raise NotImplementedError

    def mute(self) -> None:
        """Until `unmute` no request of this connection is started and its socket is not read."""
        raise NotImplementedError

    def unmute(self) -> None:
        raise NotImplementedError

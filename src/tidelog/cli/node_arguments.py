"""What each node of a local cluster is started with, beside its place in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.cli.errors import UsageError
from tidelog.config.listener import parse_address


class NodeArguments:
    """Arguments of every `tidelog serve`, and doors whose ports count up from node to node."""

    def __init__(self, common: Sequence[str] = (), doors: Mapping[str, str | None] | None = None) -> None:
        """`doors`: addresses of the first node by the names of their flags, such as `http`. Raises UsageError."""
        self._common = list(common)
        self._doors: dict[str, tuple[str, int]] = {}
        for name, address in (doors or {}).items():
            if address is not None:
                try:
                    self._doors[name] = parse_address(address)
                except ValueError as error:
                    raise UsageError(f"--{name}: {error}") from None

    def of(self, position: int) -> list[str]:
        """Of the node at this position, from 0 on."""
        addresses = [part for name in self._doors for part in (f"--{name}", self._address(name, position))]
        return [*addresses, *self._common]

    def describe(self, nodes: int) -> str:
        """The doors, for the line that says that all nodes are ready."""
        return "".join(
            f", {name} on {','.join(self._address(name, position) for position in range(nodes))}"
            for name, (_, port) in self._doors.items()
            if port
        )

    def _address(self, name: str, position: int) -> str:
        host, port = self._doors[name]
        host = f"[{host}]" if ":" in host else host or "127.0.0.1"
        # Port 0 is any free port, for each of them.
        return f"{host}:{port + position if port else 0}"

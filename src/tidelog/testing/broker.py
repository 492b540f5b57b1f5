"""A whole node inside a Python process: `Broker` for synchronous code, `AsyncBroker` for code in an event loop.

Both listen on a free port of 127.0.0.1 and keep their data in a temporary directory (below TMPDIR, which may be a
tmpfs) that is removed in the end, unless `data` names one. A restart keeps port and data. Settings go by Kafka's names.
The node of a `Broker` lives in a thread with an event loop of its own; the node of an `AsyncBroker` in the caller's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.node.node import Node
from tidelog.testing.loop_thread import LoopThread

T = TypeVar("T")

HOST = "127.0.0.1"

DEFAULTS: dict[str, str] = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Defaults of a broker for tests: groups that start at once, and few internal partitions."""


class AsyncBroker:
    """A node in the running event loop.

        async with tidelog.AsyncBroker(config={"num.partitions": "3"}) as broker:
            ...  # broker.bootstrap_servers

    `data` keeps the data there, and leaves it there; `port` 0 means any free port.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, data: str | Path | None = None, port: int = 0
    ) -> None:
        self.overrides = {name: setting_text(value) for name, value in (config or {}).items()}
        self._kept_data = None if data is None else Path(data)
        self._temporary: Path | None = None
        self._port = port
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The running node, for tests that look inside."""
        if self._node is None:
            raise RuntimeError("the broker is not running")
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    @property
    def port(self) -> int:
        """Known once the broker was started; a restart keeps it."""
        if not self._port:
            raise RuntimeError("the broker was not started yet")
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory."""
        directory = self._kept_data or self._temporary
        if directory is None:
            raise RuntimeError("the broker was not started yet")
        return directory

    @property
    def loop_kind(self) -> str:
        """The setting `tidelog.loop`, for the caller that makes the loop."""
        return self.overrides.get("tidelog.loop", "auto")

    async def start(self) -> Self:
        """Returns when clients can connect. Raises NodeStartError or ConfigError with one line."""
        if self._node is not None:
            raise RuntimeError("the broker is already running")
        if self._kept_data is None and self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="tidelog-"))
        try:
            node = Node(self._build_config())
            await node.start()
        except BaseException:
            self._remove_data()
            raise
        self._node = node
        self._port = node.port
        return self

    async def stop(self) -> None:
        """Stops the node and removes temporary data; nothing happens when it is stopped already."""
        await self._stop_node()
        self._remove_data()

    async def restart(self) -> None:
        """A clean stop and a start on the same port and data."""
        await self._stop_node()
        await self.start()

    async def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, Any] | None = None
    ) -> str:
        """Makes a topic, ready to write to, and returns its name; `num.partitions` partitions by default.
        Raises BrokerError as a client would be answered."""
        texts = {key: setting_text(value) for key, value in (configs or {}).items()}
        await self.node.create_topic(name, partitions=-1 if partitions is None else partitions, configs=texts)
        return name

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _build_config(self) -> BrokerConfig:
        return BrokerConfig.from_mapping(
            {
                **DEFAULTS,
                "listeners": f"PLAINTEXT://{HOST}:{self._port}",
                "log.dirs": str(self.data),
                **self.overrides,
            }
        )

    async def _stop_node(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.stop()

    def _remove_data(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


class Broker:
    """A node in a thread of this process, for synchronous code.

        with tidelog.Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    The arguments are those of `AsyncBroker`.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, data: str | Path | None = None, port: int = 0
    ) -> None:
        self._inner = AsyncBroker(config, data=data, port=port)
        self._thread = LoopThread("tidelog-broker")

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return self._inner.bootstrap_servers

    @property
    def port(self) -> int:
        return self._inner.port

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._inner.data

    @property
    def is_running(self) -> bool:
        return self._inner.is_running

    @property
    def node(self) -> Node:
        """The running node. It belongs to its own thread: read from it, and change it only through `call`."""
        return self._inner.node

    def start(self) -> Self:
        """Returns when clients can connect. Raises NodeStartError or ConfigError with one line."""
        if self._thread.is_running:
            raise RuntimeError("the broker is already running")
        self._thread.start(self._inner.loop_kind)
        try:
            self.call(self._inner.start)
        except BaseException:
            self._thread.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the node and removes temporary data; nothing happens when it is stopped already."""
        if not self._thread.is_running:
            return
        try:
            self.call(self._inner.stop)
        finally:
            self._thread.stop()

    def restart(self) -> None:
        """A clean stop and a start on the same port and data."""
        self.call(self._inner.restart)

    def create_topic(self, name: str, partitions: int | None = None, configs: Mapping[str, Any] | None = None) -> str:
        """Makes a topic, ready to write to, and returns its name; `num.partitions` partitions by default.
        Raises BrokerError as a client would be answered."""
        return self.call(lambda: self._inner.create_topic(name, partitions, configs))

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine function in the loop of the node and returns what it returns."""
        if not self._thread.is_running:
            raise RuntimeError("the broker is not running")
        return self._thread.call(function)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def setting_text(value: object) -> str:
    """A Python value as the text that a settings file would have for it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(str(item) for item in value)
    return str(value)

"""The consumer instances of a node: created, found by group and name, and ended when nobody asks for them any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.gateways.http.proxy.consumers.instance import ConsumerInstance
from tidelog.gateways.http.proxy.errors import (
    INSTANCE_EXISTS,
    INSTANCE_NOT_FOUND,
    TOO_MANY_REQUESTS,
    ProxyError,
)
from tidelog.model import limits
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.proxy.consumers.settings import ConsumerSettings

IDLE_SECONDS_MAX: Final = 300.0
"""How long an instance is kept that nobody asks for."""
SWEEP_SECONDS: Final = 5.0

_Key = tuple[str, str]
"""Group and name."""


class ConsumerInstances:
    def __init__(self, *, idle_seconds_max: float = IDLE_SECONDS_MAX, now_s: Callable[[], float] | None = None) -> None:
        self._idle_seconds_max = idle_seconds_max
        self._now_s: Final = now_s or (lambda: asyncio.get_running_loop().time())
        self._by_key: dict[_Key, ConsumerInstance] = {}
        self._used_s: dict[_Key, float] = {}
        """When each was last asked for; the requests that are under way count as well."""
        self._busy: dict[_Key, int] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._by_key)

    def create(self, access: LogAccess, group_id: str, settings: ConsumerSettings) -> ConsumerInstance:
        """Raises ProxyError where there are too many, or one of that name."""
        if len(self._by_key) >= limits.HTTP_CONSUMER_INSTANCES_MAX:
            raise ProxyError(
                TOO_MANY_REQUESTS,
                f"The node has {limits.HTTP_CONSUMER_INSTANCES_MAX} consumers: delete those that are not used.",
            )
        name = settings.name or f"http-{access.new_member_id()}"
        key = group_id, name
        if key in self._by_key:
            raise ProxyError(INSTANCE_EXISTS, f"Group {group_id} has a consumer {name} already: choose another name.")
        instance = ConsumerInstance(access, group_id, name, settings)
        self._by_key[key] = instance
        self._used_s[key] = self._now_s()
        self._maybe_sweep_later()
        return instance

    def use(self, access: LogAccess, group_id: str, name: str) -> InUse:
        """For one request. Raises ProxyError where there is no such instance, or it is another principal's."""
        key = group_id, name
        instance = self._by_key.get(key)
        if instance is None or instance.principal != access.caller.principal:
            raise ProxyError(
                INSTANCE_NOT_FOUND,
                f"Group {group_id[:300]} has no consumer {name[:300]} on this node: create one, and use its base_uri.",
            )
        return InUse(self, key, instance)

    async def delete(self, instance: ConsumerInstance) -> None:
        self._forget((instance.group.group_id, instance.name))
        await instance.close()

    def begin_use(self, key: _Key) -> None:
        self._busy[key] = self._busy.get(key, 0) + 1

    def end_use(self, key: _Key) -> None:
        left = self._busy.get(key, 0) - 1
        if left > 0:
            self._busy[key] = left
        else:
            self._busy.pop(key, None)
        if key in self._by_key:
            self._used_s[key] = self._now_s()

    def _forget(self, key: _Key) -> None:
        self._by_key.pop(key, None)
        self._used_s.pop(key, None)

    # -- sweeping ------------------------------------------------------------------------------------------------------

    def _maybe_sweep_later(self) -> None:
        if self._sweeper is None and self._by_key:
            pause_s = min(SWEEP_SECONDS, self._idle_seconds_max)
            self._sweeper = asyncio.get_running_loop().call_later(pause_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        oldest_s = self._now_s() - self._idle_seconds_max
        for key in [key for key, used_s in self._used_s.items() if used_s < oldest_s and key not in self._busy]:
            instance = self._by_key[key]
            self._forget(key)
            self._tasks.start(instance.close(), "end of an idle consumer")
        self._maybe_sweep_later()

    async def close(self) -> None:
        """The node stops: all leave their groups."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        instances = list(self._by_key.values())
        self._by_key.clear()
        self._used_s.clear()
        await self._tasks.finished()
        await asyncio.gather(*(instance.close() for instance in instances), return_exceptions=True)


class InUse:
    """While a request uses an instance, it is not idle."""

    __slots__ = ("_instance", "_instances", "_key")

    def __init__(self, instances: ConsumerInstances, key: _Key, instance: ConsumerInstance) -> None:
        self._instances = instances
        self._key = key
        self._instance = instance

    def __enter__(self) -> ConsumerInstance:
        self._instances.begin_use(self._key)
        return self._instance

    def __exit__(self, *_: object) -> None:
        self._instances.end_use(self._key)

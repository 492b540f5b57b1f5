"""Consumer instances are found by group and name, bounded, and ended when they are not used."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any, cast

import pytest

from tidelog.api.context import Caller, Origin
from tidelog.gateways.access import LogAccess
from tidelog.gateways.http.proxy.consumers.instances import ConsumerInstances
from tidelog.gateways.http.proxy.consumers.settings import ConsumerSettings
from tidelog.gateways.http.proxy.errors import INSTANCE_EXISTS, INSTANCE_NOT_FOUND, TOO_MANY_REQUESTS, ProxyError
from tidelog.model import limits
from tidelog.model.principal import Principal

IDLE_S = 0.05


class FakeAccess:
    """Of instances that never read."""

    def __init__(self, user: str = "ANONYMOUS") -> None:
        self.caller = Caller(Origin.GATEWAY, "127.0.0.1", "PLAINTEXT", Principal("User", user))
        self._numbers = count()

    def new_member_id(self) -> str:
        return str(next(self._numbers))


def access_of(user: str = "ANONYMOUS") -> LogAccess:
    return cast("LogAccess", FakeAccess(user))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def number_of(refused: pytest.ExceptionInfo[ProxyError]) -> int:
    return refused.value.number


def test_an_instance_is_found_until_it_is_deleted() -> None:
    async def work() -> None:
        instances, access = ConsumerInstances(), access_of()
        created = instances.create(access, "shop", ConsumerSettings(name="a"))
        with pytest.raises(ProxyError) as refused:
            instances.create(access, "shop", ConsumerSettings(name="a"))
        assert number_of(refused) == INSTANCE_EXISTS
        assert instances.create(access, "other", ConsumerSettings(name="a")) is not created
        with instances.use(access, "shop", "a") as found:
            assert found is created
        await instances.delete(created)
        with pytest.raises(ProxyError) as refused:
            instances.use(access, "shop", "a")
        assert number_of(refused) == INSTANCE_NOT_FOUND
        await instances.close()

    run(work())


def test_an_instance_belongs_to_who_has_created_it() -> None:
    async def work() -> None:
        instances = ConsumerInstances()
        instances.create(access_of("alice"), "shop", ConsumerSettings(name="a"))
        with pytest.raises(ProxyError) as refused:
            instances.use(access_of("bob"), "shop", "a")
        assert number_of(refused) == INSTANCE_NOT_FOUND
        await instances.close()

    run(work())


def test_a_node_has_a_bounded_number() -> None:
    async def work() -> None:
        instances, access = ConsumerInstances(), access_of()
        created = [
            instances.create(access, "shop", ConsumerSettings()) for _ in range(limits.HTTP_CONSUMER_INSTANCES_MAX)
        ]
        assert len({each.name for each in created}) == limits.HTTP_CONSUMER_INSTANCES_MAX
        with pytest.raises(ProxyError) as refused:
            instances.create(access, "shop", ConsumerSettings())
        assert (refused.value.status, number_of(refused)) == (429, TOO_MANY_REQUESTS)
        await instances.delete(created[0])
        instances.create(access, "shop", ConsumerSettings())
        await instances.close()
        assert len(instances) == 0

    run(work())


def test_an_instance_that_is_not_used_ends() -> None:
    async def work() -> None:
        now = [1000.0]
        instances, access = ConsumerInstances(idle_seconds_max=IDLE_S, now_s=lambda: now[0]), access_of()
        instances.create(access, "shop", ConsumerSettings(name="idle"))
        instances.create(access, "shop", ConsumerSettings(name="used"))
        with instances.use(access, "shop", "used"):
            now[0] += 2 * IDLE_S
            async with asyncio.timeout(10):
                while len(instances) > 1:
                    await asyncio.sleep(IDLE_S / 5)
            with pytest.raises(ProxyError):
                instances.use(access, "shop", "idle")
            await asyncio.sleep(3 * IDLE_S)
            assert len(instances) == 1
        now[0] += 2 * IDLE_S
        async with asyncio.timeout(10):
            while len(instances):
                await asyncio.sleep(IDLE_S / 5)
        await instances.close()

    run(work())

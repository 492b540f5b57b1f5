"""The one way into the handlers: permission first, then forwarding, then an answer now or later, or a refusal."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.api.answering import caller_of, context_of, services_of

from tidelog.api.context import RequestContext, Services
from tidelog.api.dispatcher import Dispatcher
from tidelog.api.table import APIS
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.access import CLUSTER, Operation, Resource
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.later import Later, answer_from
from tidelog.protocol.generated.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.protocol.index import ApiKey, request_class

pytestmark = pytest.mark.anyio

HEARTBEAT, UNREGISTER = int(ApiKey.HEARTBEAT), int(ApiKey.UNREGISTER_BROKER)
BEAT = Heartbeat("g", "m", None, 1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answered_by(handle: Any, api_key: int = HEARTBEAT, **parts: Any) -> RequestContext:
    """A context whose API has another handler."""
    context = context_of(services_of(**parts), api_key, 0)
    route = context.dispatcher.find_route(api_key)
    assert route is not None
    route.handle = handle
    route.is_coroutine = asyncio.iscoroutinefunction(handle)
    return context


async def complete(context: RequestContext, request: Any = BEAT) -> Any:
    route = context.dispatcher.find_route(context.api_key)
    assert route is not None
    return await context.dispatcher.complete(route, context, request)


def observed(context: RequestContext) -> int:
    route = context.dispatcher.find_route(context.api_key)
    assert route is not None
    return route.duration.count


async def test_an_answer_may_come_now_or_later() -> None:
    def now(context: RequestContext, request: Heartbeat) -> ErrorCode:
        return ErrorCode.ILLEGAL_GENERATION

    async def soon() -> ErrorCode:
        await asyncio.sleep(0)
        return ErrorCode.ILLEGAL_GENERATION

    def later(context: RequestContext, request: Heartbeat) -> Later[ErrorCode]:
        return answer_from(soon(), context.services.tasks)

    async def coroutine(context: RequestContext, request: Heartbeat) -> ErrorCode:
        return await soon()

    for handle in (now, later, coroutine):
        context = answered_by(handle)
        assert await complete(context) is ErrorCode.ILLEGAL_GENERATION
        assert observed(context) == 1, "every way to answer is measured"


async def test_an_error_of_the_request_is_an_answer_whenever_it_is_raised() -> None:
    def now(context: RequestContext, request: Heartbeat) -> ErrorCode:
        raise BrokerError(ErrorCode.NOT_COORDINATOR)

    async def later(context: RequestContext, request: Heartbeat) -> ErrorCode:
        await asyncio.sleep(0)
        raise BrokerError(ErrorCode.NOT_COORDINATOR)

    assert await complete(answered_by(now)) is ErrorCode.NOT_COORDINATOR
    assert await complete(answered_by(later)) is ErrorCode.NOT_COORDINATOR


async def test_a_fault_of_the_node_is_no_answer() -> None:
    def now(context: RequestContext, request: Heartbeat) -> ErrorCode:
        raise ZeroDivisionError

    async def later(context: RequestContext, request: Heartbeat) -> ErrorCode:
        raise ZeroDivisionError

    for handle in (now, later):
        with pytest.raises(ZeroDivisionError):
            await complete(answered_by(handle))


class Recorder:
    """Denies everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Operation, Resource]] = []

    def allows(self, caller: object, operation: Operation, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        return False


async def test_what_needs_the_cluster_is_asked_before_the_handler_is_called() -> None:
    def never(context: RequestContext, request: object) -> None:
        raise AssertionError("not allowed")

    for api in APIS:
        if not api.permission.is_on_cluster:
            continue
        recorder = Recorder()
        context = answered_by(never, api.key, authorizer=recorder)
        route = context.dispatcher.find_route(api.key)
        assert route is not None
        request = request_class(api.key)() if api.codec is None else None
        with contextlib.suppress(BrokerError):
            assert context.dispatcher.answer(route, context, request) is not None
        assert recorder.asked[0] == (api.permission.operation, CLUSTER)


async def test_only_the_active_controller_calls_the_handler_of_its_apis() -> None:
    handled: list[str] = []

    async def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        handled.append("here")
        return UnregisterBrokerResponse(error_code=ErrorCode.NOT_CONTROLLER)

    class Channel:
        async def reach(self, here: Any, there: Any, **_: Any) -> UnregisterBrokerResponse:
            if not self.is_there:
                raise BrokerError(ErrorCode.NOT_CONTROLLER)
            return UnregisterBrokerResponse(error_code=0)

        is_there = True

    channel = Channel()
    inactive = SimpleNamespace(is_active=False)
    context = answered_by(handle, UNREGISTER, controller=inactive, channel=channel)
    assert (await complete(context, UnregisterBrokerRequest(broker_id=7))).error_code == 0
    assert handled == []
    channel.is_there = False
    answer = await complete(context, UnregisterBrokerRequest(broker_id=7))
    assert (answer.error_code, handled) == (ErrorCode.NOT_CONTROLLER, ["here"])


def open_node(**parts: Any) -> tuple[Dispatcher, Services]:
    services = services_of(**parts)
    dispatcher = Dispatcher(services)
    dispatcher.open()
    return dispatcher, services


async def test_another_door_calls_with_a_typed_request() -> None:
    groups = SimpleNamespace(heartbeat=lambda request: (ErrorCode.UNKNOWN_MEMBER_ID, None))
    dispatcher, _ = open_node(groups=groups)
    assert await dispatcher.call(caller_of(), HEARTBEAT, BEAT) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_is_not_answered_by_the_deadline_is_given_up() -> None:
    given_up: list[str] = []

    def wait(context: RequestContext, request: Heartbeat) -> Later[ErrorCode]:
        later: Later[ErrorCode] = Later()
        later.on_abandoned = lambda: given_up.append("fetch")
        return later

    dispatcher, _ = open_node()
    route = dispatcher.find_route(HEARTBEAT)
    assert route is not None
    route.handle = wait
    deadline_s = asyncio.get_running_loop().time() + 0.01
    with pytest.raises(TimeoutError):
        await dispatcher.call(caller_of(), HEARTBEAT, BEAT, deadline_s=deadline_s)
    assert given_up == ["fetch"]


async def test_a_node_that_starts_answers_nodes_only() -> None:
    dispatcher = Dispatcher(services_of())
    with pytest.raises(BrokerError) as refused:
        await dispatcher.call(caller_of(), HEARTBEAT, BEAT)
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    with pytest.raises(BrokerError) as unknown:
        await dispatcher.call(caller_of(), 12_345, BEAT)
    assert unknown.value.code is ErrorCode.UNSUPPORTED_VERSION

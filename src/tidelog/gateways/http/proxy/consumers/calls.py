"""v2's calls of consumer instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tidelog.gateways.access import EARLIEST, LATEST
from tidelog.gateways.http.elsewhere import ENDPOINT
from tidelog.gateways.http.messages import Answer, Request, Response
from tidelog.gateways.http.proxy.consumers.bodies import read_offsets, read_partitions, read_subscription
from tidelog.gateways.http.proxy.consumers.settings import read_settings
from tidelog.gateways.http.proxy.errors import UNPROCESSABLE, ProxyError
from tidelog.gateways.http.proxy.formats import accepted_format
from tidelog.gateways.http.proxy.schemas import v2_response
from tidelog.gateways.http.proxy.topics import find_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.proxy.consumers.instances import ConsumerInstances, InUse
    from tidelog.model.ids import TopicPartition

_COMMITTED: Final[list[object]] = []
"""The answer to a commit."""


class ConsumerCalls:
    """The handlers, which share the instances of the door."""

    __slots__ = ("_instances",)

    def __init__(self, instances: ConsumerInstances) -> None:
        self._instances = instances

    def _use(self, access: LogAccess, values: dict[str, Any]) -> InUse:
        return self._instances.use(access, values["group"], values["instance"])

    async def create(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        group_id = values["group"]
        if not group_id:
            raise ProxyError(UNPROCESSABLE, "The path does not name a group: it is /consumers/<group>.")
        settings = read_settings(request.json() if request.body.size else {})
        instance = self._instances.create(access, group_id, settings)
        path = f"/consumers/{quote(group_id, safe='')}/instances/{quote(instance.name, safe='')}"
        return v2_response(
            request, {"instance_id": instance.name, "base_uri": f"http://{_own_address(access, request)}{path}"}
        )

    async def delete(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await self._instances.delete(instance)
        return _nothing()

    # -- subscription and assignment -----------------------------------------------------------------------------------

    async def subscribe(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await instance.subscribe(read_subscription(request))
        return _nothing()

    async def get_subscription(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            return v2_response(request, {"topics": instance.topics})

    async def unsubscribe(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await instance.unsubscribe()
        return _nothing()

    async def assign(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            partitions = read_partitions(request)
            for each in partitions:
                if access.partition(*each) is None:
                    await find_partition(access, *each)
            await instance.assign(partitions)
        return _nothing()

    async def get_assignment(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            return v2_response(
                request,
                {"partitions": [{"topic": topic, "partition": index} for topic, index in instance.partitions]},
            )

    # -- positions and offsets -----------------------------------------------------------------------------------------

    async def seek(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await instance.seek(read_offsets(request.json()))
        return _nothing()

    async def seek_to_beginning(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await instance.seek_to(read_partitions(request), EARLIEST)
        return _nothing()

    async def seek_to_end(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            await instance.seek_to(read_partitions(request), LATEST)
        return _nothing()

    async def commit(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        """Offsets are those of records that were processed: the group goes on behind them."""
        with self._use(access, values) as instance:
            body = request.json() if request.body.size else None
            if body is None or body == {}:
                await instance.commit(None)
            else:
                await instance.commit({each: offset + 1 for each, offset in read_offsets(body).items()})
        return v2_response(request, _COMMITTED)

    async def get_committed(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        with self._use(access, values) as instance:
            partitions: Iterable[TopicPartition]
            partitions = read_partitions(request) if request.body.size else instance.partitions
            asked = list(partitions)
            found = await instance.group.committed(asked) if asked else {}
            return v2_response(
                request,
                {
                    "offsets": [
                        {
                            "topic": each.topic,
                            "partition": each.partition,
                            "offset": found[each].offset,
                            "metadata": found[each].metadata,
                        }
                        for each in asked
                        if each in found
                    ]
                },
            )

    # -- records -------------------------------------------------------------------------------------------------------

    async def read(self, access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        if request.method == "HEAD":
            raise ProxyError(405, "The records would be handed out to nobody: ask with GET.")
        with self._use(access, values) as instance:
            form, body = await instance.read(accepted_format(request), values["timeout"], values["max_bytes"])
        return Response(body, content_type=form.media_type)


def _own_address(access: LogAccess, request: Request) -> str:
    """Of this node, where the instance is: a client that came through a load balancer goes straight to it."""
    broker = access.image.brokers.get(access.node_id)
    endpoint = None if broker is None else broker.gateway(ENDPOINT)
    if endpoint is None:
        return request.headers.get("host", "localhost")
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def _nothing() -> Response:
    return Response(status=204, content_type="")

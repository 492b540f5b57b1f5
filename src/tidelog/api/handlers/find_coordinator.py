"""FindCoordinator: which node looks after a group or a transactional id; several keys at once from version 4 on."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.coordination.partitioning import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.runtime.pauses import with_pauses

FIRST_VERSION_WITH_KEYS = 4
GROUP = 0
TRANSACTION = 1
NO_ERROR_MESSAGE = "NONE"
"""What Kafka says in versions 1 to 3 when nothing is wrong."""


class _Found(NamedTuple):
    node_id: int
    host: str
    port: int


async def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.version >= FIRST_VERSION_WITH_KEYS:
        keys = with_pauses(request.coordinator_keys)
        answers = [await _answer(context, request.key_type, key) async for key in keys]
        return FindCoordinatorResponse(coordinators=answers)
    answer = await _answer(context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=answer.error_code,
        error_message=answer.error_message or NO_ERROR_MESSAGE,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


async def _answer(context: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        found = await _find(context, key_type, key)
    except BrokerError as error:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=found.node_id, host=found.host, port=found.port, error_message="")


async def _find(context: RequestContext, key_type: int, key: str) -> _Found:
    services = context.services
    if key_type == GROUP:
        require(context, Operation.DESCRIBE, ResourceType.GROUP, key)
        name, index = OFFSETS_TOPIC, await services.groups.partition_of(key)
    elif key_type == TRANSACTION:
        require(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        name, index = TRANSACTIONS_TOPIC, await services.transactions.partition_of(key)
    else:
        # Share groups, and key types that do not exist.
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    image = services.metadata.image
    topic = image.topics.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    broker = None if partition is None or not image.is_live(partition.leader) else image.brokers[partition.leader]
    endpoint = None if broker is None else broker.endpoint(context.caller.listener_name)
    if broker is None or endpoint is None:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(broker.node_id, endpoint.host, endpoint.port)

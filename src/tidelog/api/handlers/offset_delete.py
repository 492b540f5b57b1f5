"""OffsetDelete: offsets of topics the group no longer reads."""

from __future__ import annotations

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import DeleteOffsets
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    require(context, Operation.DELETE, ResourceType.GROUP, request.group_id)
    refused = denied(context, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    image = context.services.metadata.image
    answers: dict[str, list[OffsetDeleteResponsePartition]] = {}
    wanted: list[tuple[str, list[int]]] = []
    for asked in request.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = image.topics.get(asked.name)
        if asked.name in refused:
            topic, code = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        known = () if topic is None else topic.partitions
        answer = answers.setdefault(asked.name, [])
        indexes = list(dict.fromkeys(partition.partition_index for partition in asked.partitions))
        answer += (
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index in indexes
            if index not in known
        )
        wanted.append((asked.name, [index for index in indexes if index in known]))
    try:
        results = await context.services.groups.delete_offsets(DeleteOffsets(request.group_id, wanted))
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error.code)
    for name, partitions in results:
        answers[name] += (
            OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index, error in partitions
        )
    return OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic(name=name, partitions=answer) for name, answer in answers.items()]
    )

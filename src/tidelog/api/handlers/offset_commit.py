"""OffsetCommit: by topic name, from version 10 on by topic id.

Partitions that do not exist are answered here, the others by the coordinator; the response names the former first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Commit, OffsetToCommit
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_new_tuple = tuple.__new__
"""Half the cost of a named tuple's own constructor."""
FIRST_VERSION_WITH_MISSING_GROUP = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    answer = _Answer(context, request)
    if not answer.offsets:
        return OffsetCommitResponse(topics=answer.topics)
    commit = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        answer.offsets,
        request.retention_time_ms,
        context.version >= FIRST_VERSION_WITH_MISSING_GROUP,
    )
    try:
        errors, committed = context.services.groups.commit_offsets(commit)
    except BrokerError as error:
        return answer.complete([error.code] * len(answer.offsets))
    if committed is None:
        return answer.complete(errors)
    return _answer_when_committed(answer, errors, committed)


async def _answer_when_committed(
    answer: _Answer, errors: Sequence[ErrorCode], committed: Awaitable[None]
) -> OffsetCommitResponse:
    try:
        await committed
    except BrokerError as error:
        errors = [error.code] * len(answer.offsets)
    return answer.complete(errors)


class _Answer:
    """What the coordinator is asked, and where in the response its codes go."""

    __slots__ = ("_places", "offsets", "topics")

    def __init__(self, context: RequestContext, request: OffsetCommitRequest) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self.offsets: list[OffsetToCommit] = []
        self._places: list[OffsetCommitResponseTopic] = []
        image = context.services.metadata.image
        uses_ids = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
        for asked in request.topics:
            answered = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
            self.topics.append(answered)
            topic = image.topics_by_id.get(asked.topic_id) if uses_ids else image.topics.get(asked.name)
            if topic is None:
                missing = ErrorCode.UNKNOWN_TOPIC_ID if uses_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answered.partitions = [
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=missing)
                    for partition in asked.partitions
                ]
                continue
            name, topic_id, known = topic.name, topic.topic_id, topic.partitions
            for partition in asked.partitions:
                index = partition.partition_index
                if index not in known:
                    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    answered.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=unknown))
                    continue
                self._places.append(answered)
                self.offsets.append(
                    _new_tuple(
                        OffsetToCommit,
                        (
                            name,
                            index,
                            partition.committed_offset,
                            partition.committed_leader_epoch,
                            partition.committed_metadata,
                            topic_id,
                        ),
                    )
                )

    def complete(self, errors: Sequence[ErrorCode]) -> OffsetCommitResponse:
        for place, offset, error in zip(self._places, self.offsets, errors, strict=True):
            place.partitions.append(OffsetCommitResponsePartition(partition_index=offset.partition, error_code=error))
        return OffsetCommitResponse(topics=self.topics)

"""OffsetFetch: one group up to version 7, several from 8 on; by topic id from 10 on; null topics ask for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import FetchedOffset, FetchOffsets, OffsetsToFetch
from tidelog.metadata.image import MetadataImage
from tidelog.model.access import Operation, Resource, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.later import Later, answer_from
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse | Later[OffsetFetchResponse]:
    groups = _asked_once(request.groups) if context.version >= FIRST_VERSION_WITH_GROUPS else [_as_group(request)]
    commits: list[Awaitable[None]] = []
    answers = [_fetch(context, group, request.require_stable, commits) for group in groups]
    if commits:
        return answer_from(_answer_when_committed(context, request, answers, commits), context.services.tasks)
    return _respond(context, request, answers)


async def _answer_when_committed(
    context: RequestContext,
    request: OffsetFetchRequest,
    answers: list[OffsetFetchResponseGroup],
    commits: list[Awaitable[None]],
) -> OffsetFetchResponse:
    """Returns nothing that a failover could take back; if it cannot be committed, no offset at all."""
    for outcome in await asyncio.gather(*commits, return_exceptions=True):
        if isinstance(outcome, BrokerError):
            answers = [OffsetFetchResponseGroup(group_id=a.group_id, error_code=outcome.code) for a in answers]
        elif outcome is not None:
            raise outcome
    return _respond(context, request, answers)


def _asked_once(groups: Sequence[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """A few bytes ask for all offsets of a group: a group that is named again is not answered again."""
    wholes: set[str] = set()
    once = []
    for group in groups:
        if group.topics is None:
            if group.group_id in wholes:
                continue
            wholes.add(group.group_id)
        once.append(group)
    return once


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, commits: list[Awaitable[None]]
) -> OffsetFetchResponseGroup:
    image = context.services.metadata.image
    uses_ids = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    is_guarded = context.services.authorizer is not None
    if is_guarded and not authorize(context, Operation.DESCRIBE, Resource(ResourceType.GROUP, group.group_id)):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    hidden = NONE_DENIED
    if is_guarded and group.topics is not None:
        hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, _names(image, group.topics, uses_ids))
    failed: list[OffsetFetchResponseTopics] = []
    wanted: list[OffsetsToFetch] | None = None
    if group.topics is not None:
        wanted = []
        for asked in group.topics:
            topic = image.topics_by_id.get(asked.topic_id) if uses_ids else image.topics.get(asked.name)
            if (asked.name if topic is None else topic.name) in hidden:
                failed.append(_failed_topic(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif topic is not None:
                wanted.append(OffsetsToFetch(topic.name, asked.partition_indexes, topic.topic_id))
            elif uses_ids:
                failed.append(_failed_topic(asked, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                wanted.append(OffsetsToFetch(asked.name, asked.partition_indexes))
    request = FetchOffsets(group.group_id, wanted, group.member_id, group.member_epoch, require_stable)
    try:
        fetched, commit = context.services.groups.fetch_offsets(request)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if commit is not None:
        commits.append(commit)
    if is_guarded and wanted is None:
        hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, (name for name, _, _ in fetched))
    topics = [
        _topic("", _topic_id(image, name, topic_id), found) if uses_ids else _topic(name, ZERO_TOPIC_ID, found)
        for name, topic_id, found in fetched
        # Asked for all by id, a topic that is gone has none to be named by.
        if (not uses_ids or topic_id != ZERO_TOPIC_ID or name in image.topics) and name not in hidden
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics + failed)


def _names(image: MetadataImage, topics: Sequence[OffsetFetchRequestTopics], uses_ids: bool) -> list[str]:
    """Of the topics that are asked for. An id that no topic has stands for no name."""
    if not uses_ids:
        return [asked.name for asked in topics]
    return [image.topics_by_id[asked.topic_id].name for asked in topics if asked.topic_id in image.topics_by_id]


def _failed_topic(asked: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    found = [FetchedOffset(index, error=error) for index in asked.partition_indexes]
    return _topic(asked.name, asked.topic_id, found)


def _topic_id(image: MetadataImage, name: str, topic_id: bytes) -> bytes:
    return topic_id if topic_id != ZERO_TOPIC_ID else image.topics[name].topic_id


def _topic(name: str, topic_id: bytes, found: list[FetchedOffset]) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            metadata=metadata,
            error_code=error,
        )
        for partition, offset, leader_epoch, metadata, error in found
    ]
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _respond(
    context: RequestContext, request: OffsetFetchRequest, answers: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if context.version >= FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(groups=answers)
    (answer,) = answers
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=p.partition_index,
                    committed_offset=p.committed_offset,
                    committed_leader_epoch=p.committed_leader_epoch,
                    metadata=p.metadata,
                    error_code=p.error_code,
                )
                for p in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    if answer.error_code and context.version < FIRST_VERSION_WITH_GROUP_ERROR:
        # The oldest version has no place for an error of the group: every partition bears it.
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=answer.error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)

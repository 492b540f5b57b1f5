"""OffsetCommit: by topic name, from version 10 on by topic id.

Partitions that do not exist are answered here, the others by the coordinator; the response names the former first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.api.messages import OffsetCommit
from tidelog.groups.core.messages import Commit, OffsetToCommit
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.later import Later, answer_from

if TYPE_CHECKING:
    from tidelog.protocol.hot_offset_commit import CommittedTopic, TopicAnswer

FIRST_VERSION_WITH_MISSING_GROUP: Final = 9
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


def handle(context: RequestContext, request: OffsetCommit) -> list[TopicAnswer] | Later[list[TopicAnswer]]:
    services = context.services
    refused: frozenset[str] | None = None
    if services.authorizer is not None:
        require(context, Operation.READ, ResourceType.GROUP, request.group_id)
        refused = denied(context, Operation.READ, ResourceType.TOPIC, _names(context, request.topics))
    answer = _Answer(context, request.topics, refused)
    offsets = answer.offsets
    if not offsets:
        return answer.complete(())
    commit = Commit(
        request.group_id,
        request.member_id,
        request.instance_id,
        request.generation,
        offsets,
        request.retention_ms,
        context.version >= FIRST_VERSION_WITH_MISSING_GROUP,
    )
    try:
        errors, committed = services.groups.commit_offsets(commit)
    except BrokerError as error:
        return answer.complete([error.code] * len(offsets))
    if committed is None:
        return answer.complete(errors)
    return answer_from(_answer_when_committed(answer, errors, committed), services.tasks)


def _names(context: RequestContext, topics: list[CommittedTopic]) -> list[str]:
    """Of the topics of the request. An id that no topic has stands for no name."""
    if context.version < FIRST_VERSION_WITH_TOPIC_IDS:
        return [name for name, _, _ in topics]
    by_id = context.services.metadata.image.topics_by_id
    return [by_id[topic_id].name for _, topic_id, _ in topics if topic_id in by_id]


async def _answer_when_committed(
    answer: _Answer, errors: Sequence[ErrorCode], committed: Awaitable[None]
) -> list[TopicAnswer]:
    try:
        await committed
    except BrokerError as error:
        errors = [error.code] * len(answer.offsets)
    return answer.complete(errors)


class _Answer:
    """What the coordinator is asked, and where in the response its codes go."""

    __slots__ = ("_places", "_topics", "offsets")

    def __init__(self, context: RequestContext, topics: list[CommittedTopic], refused: frozenset[str] | None) -> None:
        """`refused`: names of topics that the caller may not read; None where everything is allowed."""
        self.offsets: list[OffsetToCommit] = []
        self._topics: list[TopicAnswer] = []
        self._places: list[tuple[int, list[tuple[int, int]]]] = []
        """The offsets up to this one belong to this topic's answer."""
        image = context.services.metadata.image
        uses_ids = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
        offsets = self.offsets
        for asked_name, asked_id, partitions in topics:
            answered: list[tuple[int, int]] = []
            self._topics.append((asked_name, asked_id, answered))
            topic = image.topics_by_id.get(asked_id) if uses_ids else image.topics.get(asked_name)
            if refused is not None and (asked_name if topic is None else topic.name) in refused:
                answered += [(partition[0], int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for partition in partitions]
                continue
            if topic is None:
                missing = ErrorCode.UNKNOWN_TOPIC_ID if uses_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answered += [(partition[0], int(missing)) for partition in partitions]
                continue
            name, topic_id, known = topic.name, topic.topic_id, topic.partitions
            for index, offset, leader_epoch, metadata in partitions:
                if index in known:
                    offsets.append(OffsetToCommit(name, index, offset, leader_epoch, metadata, topic_id))
                else:
                    answered.append((index, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
            self._places.append((len(offsets), answered))

    def complete(self, errors: Sequence[ErrorCode]) -> list[TopicAnswer]:
        """With the coordinator's code for each of the offsets it was asked to commit."""
        at = 0
        offsets = self.offsets
        for end, answered in self._places:
            while at < end:
                answered.append((offsets[at].partition, errors[at]))
                at += 1
        return self._topics

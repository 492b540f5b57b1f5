"""OffsetCommit: by topic name, from version 10 on by topic id.

Partitions that do not exist are answered here, the others by the coordinator; the response names the former first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Commit, OffsetToCommit
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.hot_offset_commit import decode_offset_commit as decode_request
from tidelog.protocol.hot_offset_commit import encode_offset_commit_response

if TYPE_CHECKING:
    from tidelog.protocol.hot_offset_commit import CommittedTopic, OffsetCommit, TopicAnswer

__all__ = ["decode_request", "handle"]

FIRST_VERSION_WITH_MISSING_GROUP: Final = 9
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


def handle(context: RequestContext, request: OffsetCommit) -> bytes | Coroutine[Any, Any, bytes]:
    group_id, generation, member_id, instance_id, retention_ms, topics = request
    version = context.version
    answer = _Answer(context, topics)
    offsets = answer.offsets
    if not offsets:
        return answer.complete(())
    reports_missing_group = version >= FIRST_VERSION_WITH_MISSING_GROUP
    commit = Commit(group_id, member_id, instance_id, generation, offsets, retention_ms, reports_missing_group)
    try:
        errors, committed = context.services.groups.commit_offsets(commit)
    except BrokerError as error:
        return answer.complete([error.code] * len(offsets))
    if committed is None:
        return answer.complete(errors)
    return _answer_when_committed(answer, errors, committed)


async def _answer_when_committed(answer: _Answer, errors: Sequence[ErrorCode], committed: Awaitable[None]) -> bytes:
    try:
        await committed
    except BrokerError as error:
        errors = [error.code] * len(answer.offsets)
    return answer.complete(errors)


class _Answer:
    """What the coordinator is asked, and where in the response its codes go."""

    __slots__ = ("_places", "_topics", "_version", "offsets")

    def __init__(self, context: RequestContext, topics: list[CommittedTopic]) -> None:
        self.offsets: list[OffsetToCommit] = []
        self._version = context.version
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

    def complete(self, errors: Sequence[ErrorCode]) -> bytes:
        """With the coordinator's code for each of the offsets it was asked to commit."""
        at = 0
        offsets = self.offsets
        for end, answered in self._places:
            while at < end:
                answered.append((offsets[at].partition, errors[at]))
                at += 1
        return encode_offset_commit_response(self._version, self._topics)

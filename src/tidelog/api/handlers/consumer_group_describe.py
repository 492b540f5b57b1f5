"""ConsumerGroupDescribe: groups of the consumer protocol with what each member has and is to get."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.api.authorization import denied
from tidelog.api.authorized_operations import NOT_ASKED, group_operations
from tidelog.api.context import RequestContext
from tidelog.groups.core.consumer.messages import DescribedConsumer, DescribedConsumerGroup
from tidelog.groups.core.consumer.records import Partitions
from tidelog.metadata.image import MetadataImage
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

FIRST_VERSION_WITH_MEMBER_TYPE = 1
CLASSIC_MEMBER, CONSUMER_MEMBER, UNKNOWN_MEMBER = 0, 1, -1


async def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    group_ids = request.group_ids
    refused = denied(context, Operation.DESCRIBE, ResourceType.GROUP, group_ids)
    if refused:
        group_ids = [group_id for group_id in group_ids if group_id not in refused]
    described = await context.services.groups.describe_consumer_groups(group_ids)
    answers = [_answer(context, group, request.include_authorized_operations) for group in described]
    answers += (
        DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message=None, group_id=group_id)
        for group_id in sorted(refused)
    )
    return ConsumerGroupDescribeResponse(groups=answers)


def _answer(context: RequestContext, group: DescribedConsumerGroup, with_operations: bool) -> DescribedGroup:
    if group.error:
        return DescribedGroup(error_code=group.error, error_message=group.error_message, group_id=group.group_id)
    image = context.services.metadata.image
    if context.services.authorizer is not None and denied(
        context, Operation.DESCRIBE, ResourceType.TOPIC, _assigned_topics(group, image)
    ):
        return DescribedGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has topics that the client may not describe.",
            group_id=group.group_id,
        )
    tells_type = context.version >= FIRST_VERSION_WITH_MEMBER_TYPE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, image, tells_type) for member in group.members],
        authorized_operations=group_operations(context, group.group_id) if with_operations else NOT_ASKED,
    )


def _assigned_topics(group: DescribedConsumerGroup, image: MetadataImage) -> Iterator[str]:
    for member in group.members:
        for topic_id in (*member.assignment, *member.target):
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                yield topic.name


def _member(member: DescribedConsumer, image: MetadataImage, tells_type: bool) -> Member:
    member_type = UNKNOWN_MEMBER
    if tells_type:
        member_type = CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern or "",
        assignment=_assignment(member.assignment, image),
        target_assignment=_assignment(member.target, image),
        member_type=member_type,
    )


def _assignment(partitions: Partitions, image: MetadataImage) -> Assignment:
    """Without topics that were deleted in the meantime: they have no name any more."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(assigned))
            for topic_id, assigned in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )

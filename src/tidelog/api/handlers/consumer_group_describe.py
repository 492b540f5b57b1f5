"""ConsumerGroupDescribe: groups of the consumer protocol with what each member has and is to get."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.api.handlers.describe_groups import EVERY_OPERATION_ON_A_GROUP, NOT_ASKED
from tidelog.groups.core.consumer.messages import DescribedConsumer, DescribedConsumerGroup
from tidelog.groups.core.consumer.records import Partitions
from tidelog.metadata.image import MetadataImage
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
    described = await context.services.groups.describe_consumer_groups(request.group_ids)
    operations = EVERY_OPERATION_ON_A_GROUP if request.include_authorized_operations else NOT_ASKED
    return ConsumerGroupDescribeResponse(groups=[_answer(context, group, operations) for group in described])


def _answer(context: RequestContext, group: DescribedConsumerGroup, operations: int) -> DescribedGroup:
    if group.error:
        return DescribedGroup(error_code=group.error, error_message=group.error_message, group_id=group.group_id)
    image = context.services.metadata.image
    tells_type = context.version >= FIRST_VERSION_WITH_MEMBER_TYPE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, image, tells_type) for member in group.members],
        authorized_operations=operations,
    )


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
    """Topics that were deleted in the meantime have no name to be told by."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(assigned))
            for topic_id, assigned in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )

"""Groups as their coordinators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.generated.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.protocol.generated.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.coordinator import GroupAccess
    from tidelog.protocol.generated.consumer_group_describe import DescribedGroup as DescribedConsumerGroup


async def describe_group(group: GroupAccess) -> DescribedGroup:
    """Of the classic protocol. Raises BrokerError, GROUP_ID_NOT_FOUND for a group of the consumer protocol too."""
    response: DescribeGroupsResponse = await group.ask(
        int(ApiKey.DESCRIBE_GROUPS),
        DescribeGroupsRequest(groups=[group.name]),
        lambda answer: int(answer.groups[0].error_code),
    )
    found = response.groups[0]
    if found.error_code:
        raise BrokerError(ErrorCode(found.error_code), found.error_message)
    return found


async def describe_consumer_group(group: GroupAccess) -> DescribedConsumerGroup:
    """Of the consumer protocol (KIP-848)."""
    response: ConsumerGroupDescribeResponse = await group.ask(
        int(ApiKey.CONSUMER_GROUP_DESCRIBE),
        ConsumerGroupDescribeRequest(group_ids=[group.name]),
        lambda answer: int(answer.groups[0].error_code),
    )
    found = response.groups[0]
    if found.error_code:
        raise BrokerError(ErrorCode(found.error_code), found.error_message)
    return found


async def list_groups(access: LogAccess) -> list[ListedGroup]:
    """Of all nodes: each knows those that it coordinates."""
    found: dict[str, ListedGroup] = {}
    for broker in access.image.live_brokers():
        response: ListGroupsResponse = await access.ask(
            int(ApiKey.LIST_GROUPS), ListGroupsRequest(), timeout_s=8.0, at=broker.node_id
        )
        if response.error_code:
            raise BrokerError(ErrorCode(response.error_code))
        for group in response.groups:
            found[group.group_id] = group
    return [found[group_id] for group_id in sorted(found)]


async def delete_group(group: GroupAccess) -> None:
    response: DeleteGroupsResponse = await group.ask(
        int(ApiKey.DELETE_GROUPS),
        DeleteGroupsRequest(groups_names=[group.name]),
        lambda answer: int(answer.results[0].error_code),
    )
    code = response.results[0].error_code
    if code:
        raise BrokerError(ErrorCode(code))

"""Groups as their coordinators describe them, of both protocols alike."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeResponse
    from tidelog.protocol.generated.describe_groups import DescribeGroupsResponse
    from tidelog.protocol.generated.find_coordinator import FindCoordinatorResponse
    from tidelog.protocol.generated.list_groups import ListedGroup, ListGroupsResponse

_GROUP: Final = 0
_CONSUMER_TYPE: Final = "consumer"
_CLASSIC_TYPE: Final = "classic"
_GROUPS_AT_ONCE: Final = 100
"""How many are described by one request, so that none is large."""


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    partitions: tuple[tuple[str, int], ...]
    """What it reads: topics and indexes, ascending."""


class Group(NamedTuple):
    group_id: str
    state: str
    """As Kafka writes it, such as PreparingRebalance."""
    assignor: str
    is_simple: bool
    """Whether it only keeps offsets for readers that are no members."""
    coordinator: int
    members: tuple[GroupMember, ...]

    def reader_of(self, topic: str, index: int) -> GroupMember | None:
        return next((member for member in self.members if (topic, index) in member.partitions), None)


async def find_coordinator(access: LogAccess, group_id: str) -> int:
    from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest

    response: FindCoordinatorResponse = await access.ask(
        ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group_id])
    )
    [found] = response.coordinators
    if found.error_code:
        raise BrokerError(ErrorCode(found.error_code), found.error_message)
    return found.node_id


async def describe_group(access: LogAccess, group_id: str) -> Group:
    """Raises ProxyError where there is none."""
    coordinator = await find_coordinator(access, group_id)
    for describe in (_describe_consumer_groups, _describe_classic_groups):
        for group in await describe(access, coordinator, [group_id]):
            return group
    raise ProxyError(404, f"There is no consumer group {group_id[:300]}.")


async def describe_all_groups(access: LogAccess) -> list[Group]:
    """Those of all nodes, by name."""
    nodes = [broker.node_id for broker in access.image.live_brokers()]
    of_nodes = await asyncio.gather(*(_describe_groups_of(access, node) for node in nodes))
    return sorted((group for groups in of_nodes for group in groups), key=lambda group: group.group_id)


async def _describe_groups_of(access: LogAccess, node: int) -> list[Group]:
    from tidelog.protocol.generated.list_groups import ListGroupsRequest

    response: ListGroupsResponse = await access.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(), at=node)
    if response.error_code:
        raise BrokerError(ErrorCode(response.error_code))
    found: list[Group] = []
    for described, kind in ((_describe_consumer_groups, _CONSUMER_TYPE), (_describe_classic_groups, _CLASSIC_TYPE)):
        names = _names_of(response.groups, kind)
        for start in range(0, len(names), _GROUPS_AT_ONCE):
            found += await described(access, node, names[start : start + _GROUPS_AT_ONCE])
    return found


def _names_of(groups: Sequence[ListedGroup], kind: str) -> list[str]:
    return [group.group_id for group in groups if (group.group_type or _CLASSIC_TYPE).lower() == kind]


async def _describe_consumer_groups(access: LogAccess, node: int, names: list[str]) -> list[Group]:
    from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest

    response: ConsumerGroupDescribeResponse = await access.ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(group_ids=names), at=node
    )
    groups = []
    for group in response.groups:
        if _is_there(group.error_code, group.error_message):
            members = tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    _ascending((each.topic_name, each.partitions) for each in member.assignment.topic_partitions),
                )
                for member in group.members
            )
            groups.append(Group(group.group_id, group.group_state, group.assignor_name, False, node, members))
    return groups


async def _describe_classic_groups(access: LogAccess, node: int, names: list[str]) -> list[Group]:
    from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest

    response: DescribeGroupsResponse = await access.ask(
        ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=names), at=node
    )
    groups = []
    for group in response.groups:
        if _is_there(group.error_code, group.error_message):
            members = tuple(
                GroupMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    _decode_assignment(bytes(member.member_assignment)),
                )
                for member in group.members
            )
            is_simple = not group.protocol_type
            groups.append(Group(group.group_id, group.group_state, group.protocol_data, is_simple, node, members))
    return groups


def _is_there(code: int, message: str | None) -> bool:
    """Raises BrokerError where that cannot be said."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return False
    if code:
        raise BrokerError(ErrorCode(code), message)
    return True


def _decode_assignment(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """Nothing for a member that has none, or whose bytes are another protocol's."""
    from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment as Assignment

    if len(assignment) < 2:
        return ()
    version = int.from_bytes(assignment[:2], "big")
    try:
        decoded, _ = Assignment.decode(assignment, 2, min(version, Assignment.MAX_VERSION))
    except MalformedMessage:
        return ()
    return _ascending((each.topic, each.partitions) for each in decoded.assigned_partitions)


def _ascending(assigned: Any) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((topic, index) for topic, partitions in assigned for index in partitions))

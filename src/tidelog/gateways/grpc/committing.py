"""Commits that name no member: made as the member that holds the partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import grpc

from tidelog.gateways.coordinator import NO_MEMBER, AsMember
from tidelog.gateways.grpc.classic_group import ClassicGroup
from tidelog.gateways.grpc.status import Refused, invalid
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.shared import Shared


class NewOffset(NamedTuple):
    place: TopicPartition
    offset: int
    metadata: str = ""


async def commit_as_owner(shared: Shared, access: LogAccess, group_id: str, offsets: Sequence[NewOffset]) -> None:
    """Without a member the commit is allowed while the group has none at all, as with Kafka's tools."""
    if not group_id:
        raise invalid("A group must be named.")
    by_member: dict[AsMember, list[NewOffset]] = {}
    for each in offsets:
        if each.offset < 0:
            raise invalid(f"An offset to commit is not negative: {each.offset}.")
        owner = shared.held.owner(group_id, *each.place)
        by_member.setdefault(NO_MEMBER if owner is None else owner.name, []).append(each)
    group = ClassicGroup(access, group_id)
    for name, owned in by_member.items():
        try:
            await group.commit(
                {each.place: each.offset for each in owned},
                name,
                {each.place: each.metadata for each in owned},
            )
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            if name.member_id:
                shared.held.drop(group_id, name.instance_id or name.member_id)
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                error.code,
                f"Group {group_id} has members, and none of those that this node speaks for has the partition.",
            ) from None

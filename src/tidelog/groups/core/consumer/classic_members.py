"""Members of a consumer group that speak the classic protocol, while a group moves from one protocol to the other.

The coordinator assigns for them too, so no request waits: JoinGroup is a heartbeat that brings a subscription,
SyncGroup fetches what the join decided, Heartbeat tells the member to join again when there is something to do.
"""

from __future__ import annotations

from tidelog.groups.core.classic_group import CONSUMER_PROTOCOL_TYPE
from tidelog.groups.core.consumer import embedded
from tidelog.groups.core.consumer.assigning import put_off_ms, refresh_epoch, remove_member, replace_member
from tidelog.groups.core.consumer.draft import Draft
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.heartbeats import World, advance, check_room, validate_static
from tidelog.groups.core.consumer.records import ClassicMember, Subscription
from tidelog.groups.core.consumer.state import UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from tidelog.groups.core.messages import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    Join,
    Joined,
    LeavingMember,
    LeftMember,
    Protocols,
    Sync,
    Synced,
)
from tidelog.model.errors import NO_ERROR, BrokerError, ErrorCode


def join(draft: Draft, member_id: str, request: Join, world: World) -> Joined:
    """Raises BrokerError; answers at once otherwise."""
    group = draft.group
    check_room(group, member_id, request.instance_id, world.settings)
    if not _supports(group, request.protocol_type, request.protocols):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        decoded = embedded.decode_subscription(request.protocols[0][1])
    except ValueError as error:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    if request.instance_id is None:
        if is_unknown and request.requires_known_member_id:
            return Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    elif not is_unknown:
        validate_static(group, member_id, request.instance_id)
    elif request.instance_id in group.static_members:
        replace_member(draft, group.static_members[request.instance_id], member_id)
    known = draft.group.members.get(member_id) or Subscription()
    subscription = Subscription(
        request.instance_id,
        decoded.rack_id if decoded.rack_id is not None else known.rack_id,
        request.client_id,
        request.client_host,
        decoded.topics,
        None,
        request.rebalance_timeout_ms,
        None,
        ClassicMember(request.session_timeout_ms, request.protocols),
    )
    owned = embedded.by_topic_id(decoded.owned, world.image)
    current = advance(draft, member_id, subscription, owned, world)
    return Joined(NO_ERROR, member_id, current.epoch, CONSUMER_PROTOCOL_TYPE, request.protocols[0][0])


def _supports(group: ConsumerGroup, protocol_type: str, protocols: Protocols) -> bool:
    """Classic members must have a protocol in common, as they would in a classic group: it may become one."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not protocols:
        return False
    count = group.classic_member_count
    return any(group.classic_protocols.get(name, 0) == count for name, _ in protocols)


def sync(group: ConsumerGroup, request: Sync, world: World) -> Synced:
    classic = validate_classic(group, request.member_id, request.instance_id)
    current = group.current_of(request.member_id)
    if request.generation != current.epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    protocol = classic.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol not in (None, protocol):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _reachable_epoch(group, world) > current.epoch and current.state is not UNREVOKED_PARTITIONS:
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    version = embedded.decode_version(classic.protocols[0][1])
    assignment = embedded.encode_assignment(current.owned, version, world.image)
    return Synced(NO_ERROR, CONSUMER_PROTOCOL_TYPE, protocol, assignment)


def _reachable_epoch(group: ConsumerGroup, world: World) -> int:
    """The epoch a member would get if it joined again now: while an assignment is delayed, that of the last one."""
    is_put_off = put_off_ms(group, world.image, world.settings, world.now) > 0
    return group.target_epoch if is_put_off else group.epoch


def heartbeat(group: ConsumerGroup, request: Heartbeat, world: World) -> ErrorCode:
    """REBALANCE_IN_PROGRESS when the member should join again; raises BrokerError when it is none."""
    validate_classic(group, request.member_id, request.instance_id)
    current = group.current_of(request.member_id)
    if request.generation != current.epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    if (
        current.epoch < _reachable_epoch(group, world)
        or current.state is UNREVOKED_PARTITIONS
        or (current.state is UNRELEASED_PARTITIONS and not group.has_unreleased_target(request.member_id))
    ):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return NO_ERROR


def leave(draft: Draft, leaving: tuple[LeavingMember, ...], world: World) -> list[LeftMember]:
    """Members of either protocol, since administrators remove members with it too."""
    results = []
    for named_id, instance_id in leaving:
        member_id = named_id
        try:
            if instance_id is not None and member_id == UNKNOWN_MEMBER_ID:
                # An administrator removes a static member by its instance id alone.
                member_id = draft.group.static_members.get(instance_id, UNKNOWN_MEMBER_ID)
            validate_member(draft.group, member_id, instance_id)
        except BrokerError as error:
            results.append(LeftMember(named_id, instance_id, error.code))
            continue
        remove_member(draft, member_id)
        # Under the names in the request, by which a client finds its results.
        results.append(LeftMember(named_id, instance_id, NO_ERROR))
    if draft.records:
        refresh_epoch(draft, world.image, world.now, has_changed=True)
    return results


def validate_classic(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ClassicMember:
    classic = validate_member(group, member_id, instance_id).classic
    if classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return classic


def validate_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Subscription:
    if instance_id is not None:
        validate_static(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member

"""ConsumerGroupHeartbeat: join, go on, leave. One request carries all of the protocol.

A heartbeat updates the member, gives the group a new epoch and a new target if anything changed, and moves the member
one step towards its target. All of it is one decision: its records are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.coordination.decision import Moment
from tidelog.groups.core.consumer.assigning import (
    put_off_ms,
    refresh_epoch,
    refresh_target,
    remove_member,
    replace_member,
    subscribed_ids,
)
from tidelog.groups.core.consumer.draft import Draft
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.groups.core.consumer.reconciliation import reconcile
from tidelog.groups.core.consumer.records import (
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    CurrentRecord,
    OwnedPartitions,
    Partitions,
    Subscription,
    SubscriptionRecord,
)
from tidelog.groups.core.consumer.state import STABLE
from tidelog.groups.core.consumer.validation import validate_epoch
from tidelog.groups.core.settings import GroupSettings
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import PATTERNS_PER_GROUP_MAX

NOTHING_SAID: Final = Subscription()
HEARTBEAT_INTERVAL_MS_MIN: Final = 50
"""The shortest heartbeat interval for a member that waits for an assignment."""


class World:
    """What a decision depends on beside the group."""

    __slots__ = ("image", "now", "settings")

    def __init__(self, image: MetadataImage, settings: GroupSettings, now: Moment) -> None:
        self.image = image
        self.settings = settings
        self.now = now


def is_quiet(group: ConsumerGroup, request: ConsumerHeartbeat) -> bool:
    """By far the most heartbeats: a member that has all it should have says that it is alive, or that it has that."""
    current = group.current.get(request.member_id)
    known = group.members.get(request.member_id)
    return (
        current is not None
        and known is not None
        and request.member_epoch == current.epoch == group.target_epoch == group.epoch
        and current.state is STABLE
        and known.classic is None
        and not group.is_metadata_stale
        and _says_nothing_new(known, request)
    )


def heartbeat(draft: Draft, request: ConsumerHeartbeat, world: World) -> tuple[str, CurrentAssignment, HeartbeatReply]:
    """The member's id, its epoch, and its response."""
    member_id = request.member_id or request.fresh_id
    is_joining = request.member_epoch == 0
    check_room(draft.group, member_id, request.instance_id, world.settings)
    _check_patterns(draft.group, request.pattern)
    if request.instance_id is None:
        _find_dynamic(draft.group, member_id, request)
    else:
        _find_static(draft, member_id, request.instance_id, request)
    before = draft.group.current_of(member_id).owned
    current = advance(draft, member_id, _updated(draft.group, member_id, request), request.owned, world)
    is_full_request = is_joining or (
        request.rebalance_timeout_ms != -1
        and (request.topics is not None or request.pattern is not None)
        and request.owned is not None
    )
    assignment = None
    if is_full_request or (current.owned is not before and not _same_partitions(before, current.owned)):
        assignment = as_partitions(current.owned)
    interval_ms = world.settings.heartbeat_interval_ms(world.image.group_configs.get(request.group_id))
    if draft.group.epoch > draft.group.target_epoch:
        # The assignment is delayed: the member should not learn of it a whole heartbeat interval later.
        soon_ms = max(HEARTBEAT_INTERVAL_MS_MIN, put_off_ms(draft.group, world.image, world.settings, world.now))
        interval_ms = min(interval_ms, soon_ms)
    return member_id, current, HeartbeatReply(member_id, current.epoch, interval_ms, assignment)


def advance(
    draft: Draft, member_id: str, subscription: Subscription, reported: Partitions | None, world: World
) -> CurrentAssignment:
    """Takes the member in as it describes itself now, and moves it towards its target."""
    image = world.image
    known = draft.group.members.get(member_id)
    has_changed = False
    if known != subscription:
        draft.add(SubscriptionRecord(draft.group.group_id, member_id, subscription))
        has_changed = known is None or (known.topics, known.pattern) != (subscription.topics, subscription.pattern)
    refresh_epoch(draft, image, world.now, has_changed=has_changed)
    refresh_target(draft, image, world.settings, world.now)
    group = draft.group
    if group.is_reconciled(member_id) and not has_changed:
        return group.current_of(member_id)
    current = group.current_of(member_id)
    moved = reconcile(
        member_id,
        current,
        group.target_of(member_id),
        group.target_epoch,
        subscribed=set(subscribed_ids(group, subscription, image)),
        owners=group.owners,
        reported=reported,
    )
    if moved != current:
        # The last record of a decision: the draft is not read after it.
        draft.records.append(CurrentRecord(group.group_id, member_id, moved))
    return moved


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, settings: GroupSettings) -> None:
    is_known = member_id in group.members or instance_id in group.static_members
    if not is_known and len(group.members) >= settings.consumer_max_size:
        raise BrokerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {settings.consumer_max_size} members.",
        )


def _check_patterns(group: ConsumerGroup, pattern: str | None) -> None:
    """Matching one takes time in proportion to the topics; this keeps the sum within bounds."""
    users = group.pattern_users
    if pattern and pattern not in users and len(users) >= PATTERNS_PER_GROUP_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"The members of the group subscribe to {len(users)} regular expressions; there can be no more.",
        )


def _find_dynamic(group: ConsumerGroup, member_id: str, request: ConsumerHeartbeat) -> None:
    if member_id not in group.members:
        if request.member_epoch == 0:
            return
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    validate_epoch(group.current_of(member_id), request)


def _find_static(draft: Draft, member_id: str, instance_id: str, request: ConsumerHeartbeat) -> None:
    group = draft.group
    known_id = group.static_members.get(instance_id)
    if request.member_epoch != 0:
        validate_static(group, member_id, instance_id)
        validate_epoch(group.current_of(member_id), request)
    elif known_id is not None and known_id != member_id:
        has_left = group.current_of(known_id).epoch == STATIC_LEAVE_EPOCH
        if not has_left and group.members[known_id].classic is None:
            raise BrokerError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {known_id} member.",
            )
        replace_member(draft, known_id, member_id)
    elif known_id is not None and group.current_of(known_id).epoch == STATIC_LEAVE_EPOCH:
        # Back with the member id it left with: it begins again all the same.
        replace_member(draft, known_id, known_id)


def validate_static(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    known_id = group.static_members.get(instance_id)
    if known_id is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known_id != member_id:
        raise BrokerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known_id}.",
        )


def _updated(group: ConsumerGroup, member_id: str, request: ConsumerHeartbeat) -> Subscription:
    known = group.members.get(member_id)
    if known is not None and known.classic is None and _says_nothing_new(known, request):
        return known
    known = known or NOTHING_SAID
    return Subscription(
        known.instance_id if request.instance_id is None else request.instance_id,
        known.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        known.topics if request.topics is None else _ascending(request.topics),
        known.pattern if request.pattern is None else request.pattern or None,
        known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        known.assignor if request.assignor is None else request.assignor,
    )


def _ascending(topics: Sequence[str]) -> tuple[str, ...]:
    return (topics[0],) if len(topics) == 1 else tuple(sorted(set(topics)))


def _says_nothing_new(known: Subscription, request: ConsumerHeartbeat) -> bool:
    """About itself; a response to its assignment is another thing."""
    return (
        request.topics is None
        and request.pattern is None
        and request.rebalance_timeout_ms == -1
        and request.assignor is None
        and request.rack_id is None
        and request.instance_id == known.instance_id
        and request.client_id == known.client_id
        and request.client_host == known.client_host
    )


def leave(draft: Draft, request: ConsumerHeartbeat, world: World) -> HeartbeatReply:
    group, member_id = draft.group, request.member_id
    if request.instance_id is None:
        if member_id not in group.members:
            raise BrokerError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
    else:
        validate_static(group, member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        # Its place stays until its session is over, and so do its partitions but for those it was giving up.
        before = group.current_of(member_id)
        current = CurrentAssignment(STATIC_LEAVE_EPOCH, before.previous_epoch, before.state, before.owned)
        draft.add(CurrentRecord(group.group_id, member_id, current))
    else:
        fence(draft, member_id, world)
    return HeartbeatReply(member_id, request.member_epoch)


def fence(draft: Draft, member_id: str, world: World) -> None:
    """Removes a member; the next heartbeat of another one makes the new assignment."""
    remove_member(draft, member_id)
    refresh_epoch(draft, world.image, world.now, has_changed=True)


def as_partitions(owned: OwnedPartitions) -> Partitions:
    return {topic_id: tuple(partitions) for topic_id, partitions in owned.items()}


def _same_partitions(before: OwnedPartitions, after: OwnedPartitions) -> bool:
    return before.keys() == after.keys() and all(before[topic].keys() == after[topic].keys() for topic in before)

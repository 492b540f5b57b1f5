"""Checks of a heartbeat that need no group, with Kafka's messages."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.groups.core.consumer.messages import ConsumerHeartbeat
from tidelog.groups.core.consumer.patterns import compile_pattern
from tidelog.groups.core.consumer.reconciliation import owns_only
from tidelog.groups.core.consumer.records import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, CurrentAssignment
from tidelog.model.errors import BrokerError, ErrorCode


def validate_heartbeat(request: ConsumerHeartbeat, assignors: Collection[str]) -> None:
    epoch = request.member_epoch
    _require(request.group_id != "", "GroupId can't be empty.")
    _require(request.member_id != "" or (epoch == 0 and not request.makes_its_id), "MemberId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if epoch == 0:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.owned == {}, "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.topics is not None or request.pattern is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be set in first request.",
        )
    elif epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    elif epoch < LEAVE_EPOCH:
        _require(False, f"MemberEpoch is invalid: {epoch}.")
    if request.assignor is not None and request.assignor not in assignors:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
    if request.pattern:
        compile_pattern(request.pattern)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise BrokerError(ErrorCode.INVALID_REQUEST, message)


def validate_epoch(current: CurrentAssignment, request: ConsumerHeartbeat) -> None:
    """A member is at the epoch the group knows, or missed the response with that epoch, or begins again with 0."""
    epoch = request.member_epoch
    if epoch in (0, current.epoch):
        return
    if epoch == current.previous_epoch and epoch < current.epoch and owns_only(request.owned, current.owned):
        return
    size = "greater" if epoch > current.epoch else "smaller"
    raise BrokerError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )

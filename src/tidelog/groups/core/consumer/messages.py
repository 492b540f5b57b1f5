"""What members of a consumer group and those who describe them ask, and what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.groups.core.consumer.records import Partitions
from tidelog.model.errors import ErrorCode


class ConsumerHeartbeat(NamedTuple):
    """Optional parts are None, or -1, when nothing has changed since the member sent them."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: Sequence[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    fresh_id: str = ""
    """The id of the member if it comes without one, as clients of version 0 may."""
    makes_its_id: bool = True
    """Version 1 and later: the member brings its own id."""


class HeartbeatReply(NamedTuple):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """None: as before."""
    error: ErrorCode = ErrorCode.NONE


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: Sequence[str]
    pattern: str | None
    assignment: Partitions
    target: Partitions
    is_classic: bool


class DescribedConsumerGroup(NamedTuple):
    group_id: str
    state: str = ""
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[DescribedConsumer] = ()

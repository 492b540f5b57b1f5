"""Requests of members of consumer groups and of clients that describe groups, and their responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.groups.core.consumer.records import Partitions
from tidelog.model.errors import NO_ERROR, ErrorCode


class ConsumerHeartbeat:
    """Optional parts are None, or -1, when nothing has changed since the member sent them."""

    __slots__ = (
        "assignor",
        "client_host",
        "client_id",
        "fresh_id",
        "group_id",
        "instance_id",
        "makes_its_id",
        "member_epoch",
        "member_id",
        "owned",
        "pattern",
        "rack_id",
        "rebalance_timeout_ms",
        "topics",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        member_epoch: int,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topics: Sequence[str] | None = None,
        pattern: str | None = None,
        assignor: str | None = None,
        owned: Partitions | None = None,
        client_id: str = "",
        client_host: str = "",
        fresh_id: str = "",
        makes_its_id: bool = True,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topics = topics
        self.pattern = pattern
        self.assignor = assignor
        self.owned = owned
        self.client_id = client_id
        self.client_host = client_host
        self.fresh_id = fresh_id
        """The id of the member if it comes without one, as clients of version 0 may."""
        self.makes_its_id = makes_its_id
        """Version 1 and later: the member brings its own id."""


class HeartbeatReply:
    __slots__ = ("assignment", "error", "heartbeat_interval_ms", "member_epoch", "member_id")

    def __init__(
        self,
        member_id: str,
        member_epoch: int,
        heartbeat_interval_ms: int = 0,
        assignment: Partitions | None = None,
        error: ErrorCode = NO_ERROR,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
        """None: as before."""
        self.error = error


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
    error: ErrorCode = NO_ERROR
    error_message: str | None = None
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[DescribedConsumer] = ()

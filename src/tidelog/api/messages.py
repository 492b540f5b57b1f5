"""Requests and responses that handlers of often called APIs take and give instead of the generated message classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.protocol.hot_offset_commit import CommittedTopic


class OffsetCommit:
    __slots__ = ("generation", "group_id", "instance_id", "member_id", "retention_ms", "topics")

    def __init__(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        retention_ms: int,
        topics: list[CommittedTopic],
    ) -> None:
        self.group_id = group_id
        self.generation = generation
        """Or the member's epoch; negative from a consumer that is no member."""
        self.member_id = member_id
        self.instance_id = instance_id
        self.retention_ms = retention_ms
        self.topics = topics
        """By name, from version 10 on by topic id."""

"""The settings the group cores depend on, under Kafka's names with units last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member's parked join keeps it in the group: it cannot heartbeat, it does not know its id yet."""

EMPTY_GROUP_RETRY_MS = 1000
"""When writing "the group is empty" failed, how soon it is tried again."""

STATIC_REJOIN_TIMEOUT_MIN_MS = 1000
"""How soon a round is looked at again to which no static member came: members may say that they need no time at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    serves_consumer_groups: bool = True
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1000
    consumer_assignment_interval_per_member_us: int = 250
    """An assignment costs tens of microseconds for each member, so small groups need not wait for the whole interval,
    and large ones still spend little of a node on assignments."""
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used when no member names one."""
    consumer_migration_policy: str = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self.consumer_migration_policy in ("upgrade", "bidirectional")

    @property
    def allows_downgrade(self) -> bool:
        return self.consumer_migration_policy in ("downgrade", "bidirectional")

    def session_timeout_ms(self, overrides: Mapping[str, str] | None) -> int:
        """Of members of a consumer group with these settings of its own."""
        own = None if overrides is None else overrides.get("consumer.session.timeout.ms")
        return self.consumer_session_timeout_ms if own is None else int(own)

    def heartbeat_interval_ms(self, overrides: Mapping[str, str] | None) -> int:
        own = None if overrides is None else overrides.get("consumer.heartbeat.interval.ms")
        return self.consumer_heartbeat_interval_ms if own is None else int(own)

    def assignment_interval_ms(self, overrides: Mapping[str, str] | None, member_count: int) -> int:
        """An interval set for this group holds as it is; the interval of all groups is shorter for small ones."""
        own = None if overrides is None else overrides.get("consumer.assignment.interval.ms")
        if own is not None:
            return int(own)
        return min(
            self.consumer_assignment_interval_ms,
            member_count * self.consumer_assignment_interval_per_member_us // 1000,
        )

    @classmethod
    def from_config(cls, config: BrokerConfig) -> GroupSettings:
        return cls(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            serves_consumer_groups="consumer" in config.group_coordinator_rebalance_protocols,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            consumer_assignors=config.group_consumer_assignors,
            consumer_migration_policy=config.group_consumer_migration_policy,
        )

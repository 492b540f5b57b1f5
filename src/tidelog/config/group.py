"""The settings that a consumer group can have of its own, by Kafka's names.

A group keeps only what was set on it, as text; everything else comes from the broker's `group.consumer.*`, which also
says how far a group may go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.config.setting import ConfigError, Settings, int32

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig


class GroupConfig(Settings):
    consumer_session_timeout_ms: int = int32(
        default=45_000,
        minimum=1,
        synonyms=("group.consumer.session.timeout.ms",),
        doc="How long a member of this consumer group may be silent before it is taken for dead.",
    )
    consumer_heartbeat_interval_ms: int = int32(
        default=5000,
        minimum=1,
        synonyms=("group.consumer.heartbeat.interval.ms",),
        doc="The heartbeat interval that members of this consumer group are given.",
    )
    consumer_assignment_interval_ms: int = int32(
        default=1000,
        minimum=0,
        synonyms=("group.consumer.assignment.interval.ms",),
        doc="The least time between two assignments of this consumer group while members come and go.",
    )


def check_group_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """ConfigError unless every setting is one of a group and within what the broker allows."""
    values = GroupConfig.parse_values(overrides, what="group config")
    for name in overrides:
        setting = GroupConfig.SETTINGS[name]
        value = values[setting.attribute]
        protocol, _, quantity = name.partition(".")
        least, most = (f"group.{protocol}.{bound}.{quantity}" for bound in ("min", "max"))
        if value < getattr(broker, broker.SETTINGS[least].attribute):
            raise ConfigError(f"{name} must be greater than or equal to {least}")
        if value > getattr(broker, broker.SETTINGS[most].attribute):
            raise ConfigError(f"{name} must be less than or equal to {most}")
    heartbeat_ms = values.get("consumer_heartbeat_interval_ms", broker.group_consumer_heartbeat_interval_ms)
    session_ms = values.get("consumer_session_timeout_ms", broker.group_consumer_session_timeout_ms)
    if values and session_ms <= heartbeat_ms:
        raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")

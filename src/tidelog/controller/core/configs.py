"""Settings of topics, brokers and groups change: whole sets (AlterConfigs) or single ones (IncrementalAlterConfigs)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig, check_group_configs
from tidelog.config.lowered import LOWERED
from tidelog.config.setting import ConfigError, Setting
from tidelog.config.topic import TopicConfig
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.names import check_topic_name
from tidelog.controller.core.topics import check_topic_configs
from tidelog.metadata.configs import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from tidelog.metadata.image import CORDONED, MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.message import Message

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3
_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None


class ResourceChange(NamedTuple):
    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]
    replace: bool = False
    """Whether settings that are not named go back to their defaults."""


class ResourceOutcome(NamedTuple):
    resource_type: int
    resource_name: str
    error: BrokerError | None = None


def decide_alter_configs(
    image: MetadataImage,
    config: BrokerConfig,
    resources: Sequence[ResourceChange],
    *,
    validate_only: bool = False,
) -> Decision[list[ResourceOutcome]]:
    """Each resource as a whole or not at all. `config` is what the node was started with."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: list[Message] = []
    outcomes: list[ResourceOutcome] = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if named[kind, name] > 1:
                raise _invalid("Each resource must appear at most once.")
            records += _alter_resource(image, config, resource)
        except BrokerError as error:
            outcomes.append(ResourceOutcome(kind, name, error))
        else:
            outcomes.append(ResourceOutcome(kind, name))
    return Decision([] if validate_only else records, outcomes)


def _alter_resource(image: MetadataImage, config: BrokerConfig, resource: ResourceChange) -> list[Message]:
    if len({change.name for change in resource.changes}) != len(resource.changes):
        raise _invalid("Error due to duplicate config keys")
    if resource.resource_type == RESOURCE_TOPIC:
        before = _topic_overrides(image, resource.resource_name)
        known = TopicConfig.SETTINGS
        effective: Mapping[str, str | None] = _texts_of(image.broker_config(config).topic_defaults)
    elif resource.resource_type == RESOURCE_BROKER:
        check_broker_name(resource.resource_name, config.node_id, image.brokers)
        before = image.broker_configs.get(resource.resource_name, {})
        known = BrokerConfig.SETTINGS
        effective = _texts_of(config)
    elif resource.resource_type == RESOURCE_GROUP:
        if not resource.resource_name:
            raise _invalid("Default group resources are not allowed.")
        before = image.group_configs.get(resource.resource_name, {})
        known = GroupConfig.SETTINGS
        effective = {}
    else:
        raise _invalid(f"Unknown resource type {resource.resource_type}")
    after: dict[str, str] = {} if resource.replace else dict(before)
    for change in resource.changes:
        _apply(change, known.get(change.name), effective, after)
    if resource.resource_type == RESOURCE_TOPIC:
        _check_lowered(resource, before, after)
        check_topic_configs(after, image.broker_config(config))
    elif resource.resource_type == RESOURCE_GROUP:
        _check_group_changes(after, image.broker_config(config))
    else:
        _check_broker_changes(before, after)
        if CORDONED in after and not resource.resource_name:
            raise _invalid(f"Cannot update these configs at the default cluster level: [{CORDONED}]")
    changed = {name: after.get(name) for name in (*before, *after) if before.get(name) != after.get(name)}
    return [
        ConfigRecord(resource_type=resource.resource_type, resource_name=resource.resource_name, name=name, value=value)
        for name, value in changed.items()
    ]


def _check_lowered(resource: ResourceChange, before: Mapping[str, str], after: dict[str, str]) -> None:
    """Clients that replace all settings do not know of what a drain left there: it stays. Others may take it back."""
    if resource.replace and LOWERED in before:
        after.setdefault(LOWERED, before[LOWERED])
    if after.get(LOWERED, before.get(LOWERED)) != before.get(LOWERED):
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{LOWERED} is set by the controller only; it can be deleted.")


def _topic_overrides(image: MetadataImage, name: str) -> Mapping[str, str]:
    if not name:
        raise _invalid("Default topic resources are not allowed.")
    check_topic_name(name)
    topic = image.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic.config


def check_broker_name(name: str, node_id: int, others: Container[int] = ()) -> None:
    """A broker resource is this node or one of `others`, or "" for the defaults of all brokers."""
    if not name:
        return
    if not name.isascii() or not name.removeprefix("-").isdigit():
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id and int(name) not in others:
        raise _invalid(f"Unexpected broker id, expected {node_id}, but received {name}")


def _texts_of(config: TopicConfig | BrokerConfig) -> Mapping[str, str | None]:
    return {name: config.value_text(name) for name in config.SETTINGS}


def _apply(
    change: ConfigChange, setting: Setting | None, effective: Mapping[str, str | None], after: dict[str, str]
) -> None:
    if change.operation not in _OPERATIONS:
        raise _invalid(f"Unknown config operation {change.operation}")
    if change.operation == DELETE:
        after.pop(change.name, None)
        return
    if change.value is None:
        raise _invalid(f"Null value not supported for : {change.name}")
    if change.operation == SET:
        after[change.name] = change.value
        return
    if setting is None or setting.kind != "LIST":
        operation = _OPERATIONS[change.operation]
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation} to key {change.name} because its type is not LIST."
        )
    current = after.get(change.name, effective.get(change.name) or "")
    items = [item for item in current.split(",") if item]
    given = [item.strip() for item in change.value.split(",") if item.strip()]
    if change.operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    after[change.name] = ",".join(items)


def _check_broker_changes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    changed = [name for name, value in after.items() if before.get(name) != value]
    for name in changed:
        if name not in BrokerConfig.SETTINGS:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}")
    fixed = [name for name in changed if not BrokerConfig.SETTINGS[name].dynamic]
    if fixed:
        raise _invalid(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    try:
        for name in changed:
            BrokerConfig.SETTINGS[name].parse(after[name])
    except ConfigError as error:
        raise _invalid(str(error)) from None


def _check_group_changes(after: Mapping[str, str], broker: BrokerConfig) -> None:
    try:
        check_group_configs(after, broker)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)

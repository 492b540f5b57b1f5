"""Settings of brokers and groups that were set at run time. Those of a topic live and die with it: see `topics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.metadata.sub_image import SubDelta, changed_keys
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.message import Message

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_GROUP = 32

CORDONED = "cordoned.log.dirs"
"""The setting of a broker that keeps new replicas away from it (KIP-1066). A node has one data directory, so that any
value means all of the node."""

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    brokers: dict[str, Settings] = field(default_factory=dict)
    """By node id as text; "" holds for all brokers."""
    groups: dict[str, Settings] = field(default_factory=dict)

    def records(self) -> Iterator[Message]:
        for node_id, settings in self.brokers.items():
            yield from config_records(RESOURCE_BROKER, node_id, settings)
        for group, settings in self.groups.items():
            yield from config_records(RESOURCE_GROUP, group, settings)


class ConfigsDelta(SubDelta[ConfigsImage]):
    __slots__ = ("_base", "_brokers", "_groups", "brokers_changed", "groups_changed")

    IMAGE = ConfigsImage

    def __init__(self, base: ConfigsImage) -> None:
        self._base = base
        self._brokers = base.brokers
        self._groups = base.groups
        self.brokers_changed: set[str] = set()
        """Node ids as text, "" for all brokers."""
        self.groups_changed: set[str] = set()

    def replay_config(self, record: ConfigRecord) -> None:
        if record.resource_type == RESOURCE_BROKER:
            self._brokers = _with_resource(self._brokers, record)
            self.brokers_changed.add(record.resource_name)
        elif record.resource_type == RESOURCE_GROUP:
            self._groups = _with_resource(self._groups, record)
            self.groups_changed.add(record.resource_name)

    def apply(self) -> ConfigsImage:
        return self._base if self.is_empty else ConfigsImage(self._brokers, self._groups)

    @property
    def is_empty(self) -> bool:
        return not self.brokers_changed and not self.groups_changed

    @classmethod
    def between(cls, before: ConfigsImage, after: ConfigsImage) -> ConfigsDelta:
        delta = cls(after)
        delta.brokers_changed = changed_keys(before.brokers, after.brokers)
        delta.groups_changed = changed_keys(before.groups, after.groups)
        return delta

    REPLAYS = {ConfigRecord: replay_config}


def config_records(resource_type: int, name: str, settings: Settings) -> Iterator[ConfigRecord]:
    for key, value in settings.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def with_setting(settings: Settings, record: ConfigRecord) -> Settings:
    """A copy with the setting of the record; without it where the record has no value."""
    changed = dict(settings)
    if record.value is None:
        changed.pop(record.name, None)
    else:
        changed[record.name] = record.value
    return changed


def _with_resource(resources: dict[str, Settings], record: ConfigRecord) -> dict[str, Settings]:
    changed = dict(resources)
    settings = with_setting(changed.get(record.resource_name, {}), record)
    if settings:
        changed[record.resource_name] = settings
    else:
        changed.pop(record.resource_name, None)
    return changed

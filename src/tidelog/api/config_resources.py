"""Settings as admin clients see them: value, where it came from, and what else might have given it (its synonyms)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.config.setting import Setting
from tidelog.config.topic import TopicConfig
from tidelog.metadata.image import MetadataImage


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    GROUP = 8


_TYPE_NUMBERS = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7}


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: list[Synonym]
    """Most specific first; the first one gives the value."""
    type_number: int
    documentation: str


def describe_topic(
    image: MetadataImage, config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a topic with these overrides. `names` limits the answer; None is all of them."""
    broker = image.broker_config(config)
    defaults = broker.topic_defaults
    return [
        _entry_over_broker(setting, overrides, ConfigSource.TOPIC, broker, defaults.value_text(setting.name))
        for setting in _chosen(TopicConfig.SETTINGS, names)
    ]


def describe_group(
    image: MetadataImage, config: BrokerConfig, group_id: str, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a consumer group, whether it has members or not."""
    broker = image.broker_config(config)
    overrides = image.group_configs.get(group_id, {})
    return [
        _entry_over_broker(setting, overrides, ConfigSource.GROUP, broker, broker.value_text(setting.synonyms[0]))
        for setting in _chosen(GroupConfig.SETTINGS, names)
    ]


def _entry_over_broker(
    setting: Setting, overrides: Mapping[str, str], source: ConfigSource, broker: BrokerConfig, default: str | None
) -> ConfigEntry:
    """A setting that a resource has of its own (it is then from `source`), or that it takes from the broker."""
    synonyms = [synonym for name in setting.synonyms for synonym in _broker_synonyms(broker, name)]
    value = default
    override = overrides.get(setting.name)
    if override is not None:
        value = setting.normalise(override)
        synonyms.insert(0, Synonym(setting.name, value, source))
    found = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return _entry(setting, value, found, synonyms, is_read_only=False)


def describe_broker(
    image: MetadataImage, config: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of this broker."""
    broker = image.broker_config(config)
    entries = []
    for setting in _chosen(BrokerConfig.SETTINGS, names):
        synonyms = list(_broker_synonyms(broker, setting.name))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        value = broker.value_text(setting.name)
        entries.append(_entry(setting, value, source, synonyms, is_read_only=not setting.dynamic))
    return entries


def describe_broker_defaults(image: MetadataImage, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """What was set at run time for all brokers, and nothing else."""
    entries = []
    for name, value in image.broker_configs.get("", {}).items():
        setting = BrokerConfig.SETTINGS.get(name)
        if setting is not None and (names is None or name in names):
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            synonym = Synonym(name, setting.normalise(value), source)
            entries.append(_entry(setting, synonym.value, source, [synonym], is_read_only=not setting.dynamic))
    return entries


def _chosen(settings: Mapping[str, Setting], names: Collection[str] | None) -> Iterator[Setting]:
    wanted = None if names is None else set(names)
    return (
        setting for setting in settings.values() if not setting.internal and (wanted is None or setting.name in wanted)
    )


def _broker_synonyms(broker: BrokerConfig, name: str) -> Iterator[Synonym]:
    setting = BrokerConfig.SETTINGS[name]
    for texts, source in (
        (broker.dynamic_texts, ConfigSource.DYNAMIC_BROKER),
        (broker.dynamic_default_texts, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (broker.static_texts, ConfigSource.STATIC_BROKER),
    ):
        if name in texts:
            yield Synonym(name, texts[name], source)
    if setting.default is not None:
        yield Synonym(name, setting.format(setting.default), ConfigSource.DEFAULT)


def _entry(
    setting: Setting, value: str | None, source: ConfigSource, synonyms: list[Synonym], *, is_read_only: bool
) -> ConfigEntry:
    if setting.sensitive:
        value, synonyms = None, [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(
        name=setting.name,
        value=value,
        source=source,
        is_read_only=is_read_only,
        is_sensitive=setting.sensitive,
        synonyms=synonyms,
        type_number=_TYPE_NUMBERS[setting.kind],
        documentation=setting.doc,
    )

"""The settings of a broker: all sections together, the ways to build them, and what follows from them.

Where a value came from is kept, because admin clients ask: the default, what the operator gave at start (static), or
what was set at run time for all brokers or for this one (dynamic). Later ones win.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.listener import GATEWAY_NAMES, Listener, parse_address, parse_listener
from tidelog.config.sections.broker import BrokerSection
from tidelog.config.sections.cluster import ClusterSection, ReplicationSection
from tidelog.config.sections.consumer import ConsumerSection, LogSection
from tidelog.config.sections.gateways import GatewaySection
from tidelog.config.sections.storage import StorageSection
from tidelog.config.setting import ConfigError, did_you_mean
from tidelog.config.topic import TopicConfig

ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names Kafka still takes."""

_MILLISECONDS_PER = {"minutes": 60_000, "hours": 3_600_000}


class BrokerConfig(
    BrokerSection, GatewaySection, StorageSection, ClusterSection, ReplicationSection, ConsumerSection, LogSection
):
    """All settings of a node. `BrokerConfig()` is Kafka's defaults on 127.0.0.1:9092."""

    def _derive(self, given: dict[str, Any]) -> None:
        own = self.__dict__
        own["_static"] = {
            setting.name: setting.format(given[setting.attribute])
            for setting in self.SETTINGS.values()
            if given.get(setting.attribute) is not None
        }
        own["_dynamic_default"] = {}
        own["_dynamic"] = {}

    @classmethod
    def from_mapping(cls, texts: Mapping[str, str], *, source: str = "") -> BrokerConfig:
        """From Kafka's names and text values. `source` (a file, the environment) opens the line of a ConfigError."""
        values: dict[str, Any] = {}
        try:
            for given_name, text in texts.items():
                name = ALIASES.get(given_name, given_name)
                setting = cls.SETTINGS.get(name)
                if setting is None:
                    raise ConfigError(f"Unknown setting {given_name}{did_you_mean(given_name, cls.SETTINGS)}")
                values[setting.attribute] = setting.parse(str(text))
            config = cls(**values)
            config.check_together()
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}" if source else str(error)) from None
        return config

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """What holds when `cluster` (all brokers) and then `broker` (this one) are set at run time.

        Names this version does not know and values it does not take are left out: they were checked when they were set,
        and a node must start even if another version set them.
        """
        if not cluster and not broker and not self._dynamic_default and not self._dynamic:
            return self
        values = {a: getattr(self, a) for a in self.DEFAULTS}
        for name in {**self._dynamic_default, **self._dynamic}:
            setting = self.SETTINGS[name]
            text = self._static.get(name)
            values[setting.attribute] = setting.default if text is None else setting.parse(text)
        taken: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for texts, kept in zip((cluster, broker), taken, strict=True):
            for name, text in texts.items():
                known = self.SETTINGS.get(name)
                if known is None or not known.dynamic:
                    continue
                try:
                    values[known.attribute] = known.parse(text)
                except ConfigError:
                    continue
                kept[name] = text
        config = type(self)(**values)
        config.__dict__["_static"] = self._static
        config.__dict__["_dynamic_default"], config.__dict__["_dynamic"] = taken
        return config

    # Where values come from, most specific first; DescribeConfigs shows them.

    @property
    def _static(self) -> dict[str, str]:
        found: dict[str, str] = self.__dict__["_static"]
        return found

    @property
    def _dynamic_default(self) -> dict[str, str]:
        found: dict[str, str] = self.__dict__["_dynamic_default"]
        return found

    @property
    def _dynamic(self) -> dict[str, str]:
        found: dict[str, str] = self.__dict__["_dynamic"]
        return found

    @property
    def static_texts(self) -> Mapping[str, str]:
        """What the operator gave at start, by Kafka's name."""
        return self._static

    @property
    def dynamic_default_texts(self) -> Mapping[str, str]:
        """What was set at run time for all brokers."""
        return self._dynamic_default

    @property
    def dynamic_texts(self) -> Mapping[str, str]:
        """What was set at run time for this broker."""
        return self._dynamic

    def with_identity(self, node_id: int, cluster_id: str | None) -> BrokerConfig:
        """The same settings for a node that was given its number, or its cluster, by others."""
        texts = {**self._static, "node.id": str(node_id)}
        if cluster_id is not None:
            texts["cluster.id"] = cluster_id
        return type(self).from_mapping(texts)

    # What follows from the values.

    @property
    def data_directory(self) -> str:
        return self.log_dirs

    @property
    def bound_listeners(self) -> tuple[Listener, ...]:
        """Where clients may connect: `listeners` without those of the metadata quorum."""
        return self._parsed("listeners", self.listeners)

    @property
    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients learn of: one for each bound listener, in the same order.

        A host that is empty or 0.0.0.0 and a port of 0 are left for the node to fill in once it is bound.
        """
        advertised = {
            listener.name: listener
            for listener in self._parsed("advertised.listeners", self.advertised_listeners or ())
        }
        return tuple(advertised.get(listener.name, listener) for listener in self.bound_listeners)

    @property
    def inter_node_listener_name(self) -> str:
        """The listener other nodes use."""
        return self.inter_broker_listener_name or self.bound_listeners[0].name

    def _parsed(self, name: str, texts: tuple[str, ...]) -> tuple[Listener, ...]:
        found: list[Listener] = []
        for text in texts:
            try:
                listener = parse_listener(text)
            except ValueError as error:
                raise ConfigError(f"Invalid value {text} for configuration {name}: {error}") from None
            if listener.name not in self.controller_listener_names:
                found.append(listener)
        return tuple(found)

    @property
    def topic_defaults(self) -> TopicConfig:
        """The settings of a topic without overrides; one object for all of them."""
        found = self.__dict__.get("_topic_defaults")
        if found is None:
            found = self.__dict__["_topic_defaults"] = TopicConfig.from_broker(self)
        return found

    def first_synonym(self, names: tuple[str, ...]) -> Any:
        """The value of the first of these settings that has one, hours and minutes as milliseconds; else None."""
        for name in names:
            value = getattr(self, self.SETTINGS[name].attribute)
            if value is not None:
                scale = _MILLISECONDS_PER.get(name.rpartition(".")[2], 1)
                return value if scale == 1 else max(value * scale, -1)
        return None

    def check_together(self) -> None:
        """The rules that bind two settings; ConfigError in one line."""
        bound = self.bound_listeners
        if not bound:
            raise ConfigError("Invalid value for configuration listeners: at least one client listener is needed")
        names = [listener.name for listener in bound]
        if len(set(names)) != len(names):
            raise ConfigError("Invalid value for configuration listeners: each listener must have a different name")
        for listener in self._parsed("advertised.listeners", self.advertised_listeners or ()):
            if listener.name not in names:
                raise ConfigError(
                    f"Invalid value {listener} for configuration advertised.listeners: "
                    f"no listener is named {listener.name}"
                )
            if listener.host in ("0.0.0.0", "::"):
                raise ConfigError(
                    f"Invalid value {listener} for configuration advertised.listeners: "
                    f"clients cannot connect to {listener.host}"
                )
        self._check_protocols(names)
        self._check_addresses()
        if self.inter_broker_listener_name is not None and self.inter_broker_listener_name not in names:
            raise ConfigError(
                f"Invalid value {self.inter_broker_listener_name} for configuration inter.broker.listener.name: "
                "no listener has this name"
            )
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigError(
                f"Invalid value {self.queued_max_request_bytes} for configuration queued.max.request.bytes: "
                f"requests of {self.socket_request_max_bytes} bytes (socket.request.max.bytes) would never fit"
            )
        for low, high in _ORDERED:
            if getattr(self, self.SETTINGS[low].attribute) > getattr(self, self.SETTINGS[high].attribute):
                raise ConfigError(f"{low} must not be larger than {high}")
        self.topic_defaults.check_together()

    def _check_addresses(self) -> None:
        for name in ("admin.listen", "http.listen", "http.advertised", "grpc.listen", "grpc.advertised"):
            address = getattr(self, self.SETTINGS[name].attribute)
            if address is not None:
                try:
                    parse_address(address)
                except ValueError as error:
                    raise ConfigError(f"Invalid value {address} for configuration {name}: {error}") from None

    def _check_protocols(self, names: list[str]) -> None:
        protocols = dict(entry.partition(":")[::2] for entry in self.listener_security_protocol_map)
        for name in names:
            if name in GATEWAY_NAMES:
                raise ConfigError(
                    f"Invalid value {name} for configuration listeners: another kind of door has this name"
                )
            protocol = protocols.get(name, name)
            if protocol != "PLAINTEXT":
                raise ConfigError(
                    f"Invalid value {name} for configuration listeners: the security protocol {protocol} is not "
                    "supported (listener.security.protocol.map may map the name to PLAINTEXT)"
                )


_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
)

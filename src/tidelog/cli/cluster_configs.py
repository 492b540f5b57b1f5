"""`tidelog config list`, `describe`, `set`, `unset`: settings of topics, brokers and groups in a running cluster.

A value has a source: set for this resource, set for all brokers, in the broker's file, or the default.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.clients import (
    ANSWER_SECONDS_MAX,
    cluster_metadata,
    connect_admin,
    no_such,
    parse_pairs,
    result_of,
    unknown_topic,
)
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

KINDS = ("topic", "broker", "group")
GROUP_RESOURCE = 32
ALL_BROKERS = "default"
"""The name that stands for the settings all brokers share."""

SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
    "STATIC_BROKER_CONFIG": "broker file",
    "DEFAULT_CONFIG": "default",
    "GROUP_CONFIG": "group",
}
"""Kafka's names of the sources -> the words shown; JSON carries Kafka's."""

CHANGED_AT_RUN_TIME = {
    "broker": ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    "topic": ("DYNAMIC_TOPIC_CONFIG",),
    "group": ("GROUP_CONFIG",),
}
"""Kind -> the sources that are changes made to the resource; a topic also shows what its broker was given."""


class ConfigValue(NamedTuple):
    """One setting of one resource."""

    name: str
    value: str | None
    """None when the broker keeps it secret or nothing is set."""
    source: str
    default: str | None
    read_only: bool
    sensitive: bool

    @property
    def is_changed(self) -> bool:
        return self.source != "DEFAULT_CONFIG"


def add_cluster_parsers(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listing = verbs.add_parser("list", help="all settings that were changed, of all topics, brokers and groups")
    listing.add_argument("kind", nargs="?", choices=KINDS, help="only of topics, of brokers or of groups")
    _finish(listing, run_list)

    describe = verbs.add_parser("describe", help="the settings of one topic, broker or group")
    _add_resource(describe)
    describe.add_argument("patterns", nargs="*", metavar="SETTING", help="only these; may be patterns ('*retention*')")
    describe.add_argument("--changed", action="store_true", help="only those that are not default")
    _finish(describe, run_describe)

    setting = verbs.add_parser("set", help="set values")
    _add_resource(setting)
    setting.add_argument("pairs", nargs="+", metavar="NAME=VALUE")
    _finish(setting, run_set)

    unset = verbs.add_parser("unset", help="back to the default")
    _add_resource(unset)
    unset.add_argument("names", nargs="+", metavar="SETTING")
    _finish(unset, run_unset)


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what the settings belong to")
    parser.add_argument(
        "name", metavar="NAME", help=f"topic or group name, broker id, or `{ALL_BROKERS}` for what all brokers share"
    )


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run_list(args: argparse.Namespace) -> int:
    admin = connect_admin(args)
    metadata = cluster_metadata(admin, args)
    resources: list[tuple[str, str]] = []
    if args.kind in (None, "broker"):
        resources += [("broker", str(node_id)) for node_id in sorted(metadata.brokers)]
    if args.kind in (None, "topic"):
        resources += [("topic", name) for name in sorted(metadata.topics)]
    if args.kind in (None, "group"):
        resources += [("group", name) for name in _groups_with_settings(args)]
    changed = []
    for kind, name in resources:
        configs = describe_resource(admin, kind, name)
        changed += [(kind, name, config) for config in configs if config.source in CHANGED_AT_RUN_TIME[kind]]
    if args.json:
        print_json([{"kind": kind, "resource": name, **config._asdict()} for kind, name, config in changed])
    elif changed:
        rows = [[kind, name, config.name, _shown(config), config.default] for kind, name, config in changed]
        print_table(["kind", "name", "setting", "value", "default"], rows)
    else:
        note("nothing was changed: all settings are those of the defaults and of the brokers' files")
    return 0


def _groups_with_settings(args: argparse.Namespace) -> list[str]:
    """Whether they have members or not; confluent-kafka has no call for it."""
    from tidelog.cli.wire import connect_broker
    from tidelog.protocol.generated.list_config_resources import ListConfigResourcesRequest

    try:
        with connect_broker(args) as broker:
            found = broker.call(ListConfigResourcesRequest(resource_types=[GROUP_RESOURCE]), 1).config_resources
    except CommandError:
        if args.kind == "group":
            raise
        return []
    return sorted(resource.resource_name for resource in found)


def run_describe(args: argparse.Namespace) -> int:
    admin = connect_admin(args)
    if args.kind == "topic" and args.name not in cluster_metadata(admin, args).topics:
        raise CommandError(unknown_topic(args.name))
    _check_broker(args, admin)
    configs = _describe_shared(args) if _is_shared(args) else describe_resource(admin, args.kind, args.name)
    if args.changed:
        configs = [config for config in configs if config.is_changed]
    if args.patterns:
        configs = _choose(configs, args.patterns)
    if args.json:
        print_json({"kind": args.kind, "resource": args.name, "configs": [config._asdict() for config in configs]})
    elif configs:
        print_table(["setting", "value", "source", "default"], [_row(config) for config in configs])
    elif _is_shared(args):
        note("nothing is set for all brokers; `tidelog config set broker default NAME=VALUE` does it")
    else:
        note(f"{args.kind} {args.name}: no such settings; all are default")
    return 0


def run_set(args: argparse.Namespace) -> int:
    changes = parse_pairs(args.pairs, "config set")
    admin = connect_admin(args)
    _check_broker(args, admin)
    _alter(args, admin, changes, ())
    return _report(args, changes, [])


def run_unset(args: argparse.Namespace) -> int:
    wrong = next((name for name in args.names if "=" in name), None)
    if wrong is not None:
        raise UsageError(f"config unset takes names only, got {wrong!r}")
    admin = connect_admin(args)
    _check_broker(args, admin)
    name = str(min(cluster_metadata(admin, args).brokers)) if _is_shared(args) else args.name
    check_names(admin, args.kind, name, args.names)
    _alter(args, admin, {}, args.names)
    return _report(args, {}, args.names)


def _is_shared(args: argparse.Namespace) -> bool:
    return bool(args.kind == "broker" and args.name == ALL_BROKERS)


def _describe_shared(args: argparse.Namespace) -> list[ConfigValue]:
    from tidelog.cli.shared_configs import describe_shared

    return sorted(
        ConfigValue(each.name, each.value, "DYNAMIC_DEFAULT_BROKER_CONFIG", None, each.read_only, each.is_sensitive)
        for each in describe_shared(args)
    )


def _alter(args: argparse.Namespace, admin: AdminClient, changes: Mapping[str, str], deleted: Iterable[str]) -> None:
    if _is_shared(args):
        from tidelog.cli.shared_configs import alter_shared

        alter_shared(args, changes, deleted)
    else:
        alter_configs(admin, args.kind, args.name, changes, deleted)


def check_names(admin: AdminClient, kind: str, name: str, settings: Iterable[str]) -> None:
    """Brokers take back what was never set without a word, a misspelt name too."""
    known = {config.name for config in describe_resource(admin, kind, name)}
    for setting in settings:
        if setting not in known:
            raise CommandError(f"no setting of {kind}s is called {setting}; `tidelog config explain` tells all")


def _report(args: argparse.Namespace, changes: Mapping[str, str], deleted: list[str]) -> int:
    if args.json:
        print_json({"kind": args.kind, "resource": args.name, "set": dict(changes), "unset": deleted})
        return 0
    for name, value in changes.items():
        print(f"{args.kind} {args.name}: {name} = {value}")
    for name in deleted:
        print(f"{args.kind} {args.name}: {name} is default again")
    return 0


def describe_resource(admin: AdminClient, kind: str, name: str) -> list[ConfigValue]:
    """The settings of one resource by name."""
    resource = _resource(kind, name)
    future = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS_MAX)[resource]
    entries = result_of(future, f"settings of {kind} {name}", missing=no_such(kind, name))
    return sorted(_config_value(entry) for entry in entries.values())


def alter_configs(admin: AdminClient, kind: str, name: str, changes: Mapping[str, str], deleted: Iterable[str]) -> None:
    """Changes only what is named; all or nothing."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    resource = _resource(kind, name)
    for setting, value in changes.items():
        resource.add_incremental_config(ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET))
    for setting in deleted:
        resource.add_incremental_config(ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE))
    future = admin.incremental_alter_configs([resource], request_timeout=ANSWER_SECONDS_MAX)[resource]
    result_of(future, f"cannot change {kind} {name}", missing=no_such(kind, name))


def _resource(kind: str, name: str) -> Any:
    from confluent_kafka.admin import ConfigResource

    types = {
        "topic": ConfigResource.Type.TOPIC,
        "broker": ConfigResource.Type.BROKER,
        "group": ConfigResource.Type.GROUP,
    }
    return ConfigResource(types[kind], name)


def _config_value(entry: Any) -> ConfigValue:
    from confluent_kafka.admin import ConfigSource

    source = ConfigSource(entry.source)
    default = entry.value if source == ConfigSource.DEFAULT_CONFIG else None
    for synonym in entry.synonyms.values():
        if ConfigSource(synonym.source) == ConfigSource.DEFAULT_CONFIG:
            default = in_unit_of(entry.name, synonym)
    return ConfigValue(
        name=entry.name,
        value=entry.value,
        source=source.name,
        default=default,
        read_only=entry.is_read_only,
        sensitive=entry.is_sensitive,
    )


def in_unit_of(name: str, synonym: Any) -> str | None:
    """The value of a synonym, which may be in hours (log.retention.hours) where the setting is in milliseconds."""
    unit_ms = {"hours": 3_600_000, "minutes": 60_000}.get(synonym.name.rpartition(".")[2])
    if not name.endswith(".ms") or unit_ms is None or not str(synonym.value).lstrip("-").isdigit():
        return None if synonym.value is None else str(synonym.value)
    number = int(synonym.value)
    return str(number * unit_ms if number >= 0 else number)


def _check_broker(args: argparse.Namespace, admin: AdminClient) -> None:
    """The client would wait for a broker that is not there until its time is up."""
    if args.kind != "broker" or _is_shared(args):
        return
    name, brokers = args.name, cluster_metadata(admin, args).brokers
    if not name.isdigit() or int(name) not in brokers:
        known = ", ".join(map(str, sorted(brokers)))
        raise CommandError(f"there is no broker {name}; the brokers are {known} (or `{ALL_BROKERS}` for all)")


def _choose(configs: list[ConfigValue], patterns: list[str]) -> list[ConfigValue]:
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(config.name, pattern) for config in configs):
            raise CommandError(f"no setting is called {pattern}; `tidelog config explain` tells all")
    return [config for config in configs if any(fnmatch.fnmatchcase(config.name, pattern) for pattern in patterns)]


def _shown(config: ConfigValue) -> str | None:
    return "(hidden)" if config.sensitive else config.value


def _row(config: ConfigValue) -> list[str | None]:
    return [config.name, _shown(config), SOURCES.get(config.source, config.source), config.default]

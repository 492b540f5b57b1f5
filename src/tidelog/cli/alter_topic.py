"""`tidelog topics alter`: more partitions, other settings, another number of replicas; says what changed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli import replication_factor
from tidelog.cli.clients import (
    ANSWER_SECONDS_MAX,
    cluster_metadata,
    connect_admin,
    no_such,
    parse_pairs,
    result_of,
)
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import print_json

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Change(NamedTuple):
    """One thing that was changed, as text for people and for JSON."""

    name: str
    old: str | None
    """None when there was no value."""
    new: str | None
    is_default: bool = False
    """Whether the new value is the one that holds without a setting of the topic's own."""

    def line(self, topic: str) -> str:
        default = " (default)" if self.is_default else ""
        return f"topic {topic}: {self.name} {_shown(self.old)} -> {_shown(self.new)}{default}"


def _shown(value: str | None) -> str:
    return "none" if value is None else value or "''"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-p", "--partitions", type=int, metavar="N", help="the new, larger number of partitions")
    parser.add_argument("-r", "--replication-factor", type=int, metavar="R", help="replicas of each partition")
    parser.add_argument(
        replication_factor.ALLOW_FEWER, action="store_true", help="even if R is less than min.insync.replicas"
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the new replicas are in sync")
    parser.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="set a topic setting")
    parser.add_argument("--delete-config", action="append", default=[], metavar="NAME", help="back to the default")


def run(args: argparse.Namespace) -> int:
    configs = parse_pairs(args.config, "--config")
    factor = args.replication_factor
    if args.partitions is None and factor is None and not configs and not args.delete_config:
        raise UsageError("nothing to change: give --partitions, --replication-factor, --config or --delete-config")
    if args.partitions is not None and factor is not None:
        raise UsageError("--partitions and --replication-factor are changed one after the other, in two commands")
    if factor is not None:
        return _alter_factor(args, configs)
    changes, done = _alter_settings(args, configs)
    return _report(args, changes, done)


def _report(args: argparse.Namespace, changes: list[Change], done: dict[str, Any]) -> int:
    if args.json:
        documented = [{"name": change.name, "old": change.old, "new": change.new} for change in changes]
        print_json({"name": args.name, **done, "changes": documented})
        return 0
    for change in changes:
        print(change.line(args.name))
    return 0


def _alter_factor(args: argparse.Namespace, configs: dict[str, str]) -> int:
    from tidelog.cli.cluster_state import read_state
    from tidelog.cli.wire import connect_broker

    factor: int = args.replication_factor
    with connect_broker(args) as connection:
        plan = replication_factor.plan_change(
            connection,
            args.name,
            factor,
            min_insync=configs.get(replication_factor.MIN_INSYNC),
            allow_fewer=args.allow_fewer_replicas,
        )
        placed = read_state(connection).partitions.items()
        counts = sorted({len(place.replicas) for partition, place in placed if partition.topic == args.name})
        changes: list[Change] = []
        done: dict[str, Any] = {}
        if configs or args.delete_config:
            changes, done = _alter_settings(args, configs)
        replication_factor.change(connection, args.name, plan, wait=not args.no_wait)
    changes.append(Change("replicas", " or ".join(map(str, counts)), str(factor)))
    code = _report(args, changes, done | {"replication_factor": factor, "moves": len(plan)})
    if args.no_wait and plan and not args.json:
        print("the replicas are being moved; `tidelog topics reassign` shows how far that is")
    return code


def _alter_settings(args: argparse.Namespace, configs: dict[str, str]) -> tuple[list[Change], dict[str, Any]]:
    admin = connect_admin(args)
    from tidelog.cli.cluster_configs import alter_configs, check_names

    found = cluster_metadata(admin, args).topics.get(args.name)
    if found is None:
        raise CommandError(no_such("topic", args.name))
    changes: list[Change] = []
    done: dict[str, Any] = {}
    if configs or args.delete_config:
        before = _describe(admin, args.name)
        if args.delete_config:
            check_names(admin, "topic", args.name, args.delete_config)
        alter_configs(admin, "topic", args.name, configs, args.delete_config)
        changes += [Change(name, _value(before.get(name)), value) for name, value in configs.items()]
        for name in args.delete_config:
            changes.append(Change(name, _value(before.get(name)), _inherited(before[name]), is_default=True))
        done["set"], done["deleted"] = configs, list(args.delete_config)
    if args.partitions is not None:
        from confluent_kafka.admin import NewPartitions

        # The plural of the stub: `new_total_count` is the whole count, not what is added.
        growth = NewPartitions(args.name, new_total_count=args.partitions)
        future = admin.create_partitions([growth], request_timeout=ANSWER_SECONDS_MAX)[args.name]
        subject = f"cannot change the partitions of topic {args.name}"
        result_of(future, subject, missing=no_such("topic", args.name))
        changes.append(Change("partitions", str(len(found.partitions)), str(args.partitions)))
        done["partitions"] = args.partitions
    return changes, done


def _describe(admin: AdminClient, topic: str) -> dict[str, Any]:
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    future = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS_MAX)[resource]
    entries: dict[str, Any] = result_of(future, f"settings of topic {topic}", missing=no_such("topic", topic))
    return entries


def _value(entry: Any) -> str | None:
    return None if entry is None else entry.value


def _inherited(entry: Any) -> str | None:
    """What holds without a value of the topic's own: the first of the other sources, which are in their order."""
    from confluent_kafka.admin import ConfigSource

    from tidelog.cli.cluster_configs import in_unit_of

    for synonym in entry.synonyms.values():
        if ConfigSource(synonym.source) != ConfigSource.DYNAMIC_TOPIC_CONFIG:
            return in_unit_of(entry.name, synonym)
    return None if ConfigSource(entry.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG else entry.value

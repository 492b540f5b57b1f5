"""`tidelog groups`: list consumer groups, show their lag and members, move their offsets, delete them.

Moving offsets only shows what would happen unless --execute is given.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tidelog.cli.clients import (
    ANSWER_SECONDS_MAX,
    connect_admin,
    existing_partitions,
    query_bounds,
    result_of,
)
from tidelog.cli.confirming import delete_named
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Column, note, print_fields, print_json, print_table

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

STATES = ("empty", "preparing_rebalancing", "completing_rebalancing", "stable", "dead", "unknown")
"""librdkafka's names, as they are listed."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("groups", help="list, describe, reset and delete consumer groups")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="name all groups")
    listing.add_argument("--state", action="append", metavar="S", help="only groups in this state (stable, empty, ...)")
    _finish(listing, run_list)

    describe = verbs.add_parser("describe", help="committed offsets, lag and members")
    describe.add_argument("groups", nargs="*", metavar="GROUP")
    describe.add_argument("--all", action="store_true", help="all groups")
    _finish(describe, run_describe)

    members = verbs.add_parser("members", help="the members and their partitions")
    members.add_argument("group", metavar="GROUP")
    _finish(members, run_members)

    from tidelog.cli.reset_offsets import add_reset_parser

    _finish(*add_reset_parser(verbs))

    delete = verbs.add_parser("delete", help="remove groups without members, and their offsets")
    delete.add_argument("groups", nargs="+", metavar="GROUP")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _finish(delete, run_delete)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def list_groups(admin: AdminClient) -> list[dict[str, Any]]:
    """All groups by name, with state and type."""
    found = result_of(admin.list_consumer_groups(request_timeout=ANSWER_SECONDS_MAX), "cannot list groups")
    if found.errors:
        note(f"tidelog: not every broker answered: {found.errors[0]}")
    groups = [
        {
            "group": group.group_id,
            "state": group.state.name.lower(),
            "type": group.type.name.lower() if group.type is not None else None,
            "simple": group.is_simple_consumer_group,
        }
        for group in found.valid
    ]
    return sorted(groups, key=lambda group: str(group["group"]))


def run_list(args: argparse.Namespace) -> int:
    wanted = {_state_name(text) for text in args.state or ()}
    groups = list_groups(connect_admin(args))
    if args.state:
        groups = [group for group in groups if group["state"] in wanted]
    if args.json:
        print_json(groups)
    elif groups:
        print_table(
            ["group", "state", "protocol"], [[group["group"], group["state"], group["type"]] for group in groups]
        )
    else:
        note("no groups in that state" if wanted else "no groups; `tidelog consume TOPIC --group G` makes one")
    return 0


def _state_name(text: str) -> str:
    """A state however it is written: Empty, preparing-rebalancing, and Kafka's PreparingRebalance."""
    plain = text.lower().replace("-", "").replace("_", "").replace("rebalancing", "rebalance")
    for state in STATES:
        if plain == state.replace("_", "").replace("rebalancing", "rebalance"):
            return state
    raise UsageError(f"unknown state {text}; states are {', '.join(STATES)}")


def describe_group(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    """State and members; CommandError for a group that does not exist."""
    future = admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS_MAX)[group]
    description: ConsumerGroupDescription = result_of(future, f"cannot describe group {group}")
    return description


def committed_offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """Partition -> committed offset, for all partitions the group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group)]
    future = admin.list_consumer_group_offsets(request, request_timeout=ANSWER_SECONDS_MAX)[group]
    answer = result_of(future, f"cannot read the offsets of group {group}")
    offsets: dict[tuple[str, int], int] = {}
    for partition in answer.topic_partitions:
        if partition.error is not None:
            raise CommandError(f"group {group}, {partition.topic}-{partition.partition}: {partition.error.str()}")
        if partition.offset >= 0:
            offsets[(partition.topic, partition.partition)] = partition.offset
    return offsets


def check_exists(description: ConsumerGroupDescription, offsets: dict[tuple[str, int], int]) -> None:
    """Brokers answer for unknown groups with an empty dead one."""
    if description.state.name in ("DEAD", "UNKNOWN") and not description.members and not offsets:
        raise CommandError(f"group {description.group_id} does not exist; `tidelog groups list` names all")


def run_describe(args: argparse.Namespace) -> int:
    if bool(args.groups) == args.all:
        raise UsageError("name groups, or give --all")
    admin = connect_admin(args)
    names = [group["group"] for group in list_groups(admin)] if args.all else list(dict.fromkeys(args.groups))
    described = [_describe(admin, args, name) for name in names]
    if args.json:
        print_json(described)
        return 0
    for index, group in enumerate(described):
        if index:
            print()
        _print_description(group)
    return 0


def _describe(admin: AdminClient, args: argparse.Namespace, name: str) -> dict[str, Any]:
    description = describe_group(admin, name)
    offsets = committed_offsets(admin, name)
    check_exists(description, offsets)
    owners: dict[tuple[str, int], Any] = {}
    for member in description.members:
        for partition in member.assignment.topic_partitions if member.assignment else ():
            owners[(partition.topic, partition.partition)] = member
    pairs = sorted({*offsets, *owners})
    bounds = query_bounds(admin, existing_partitions(admin, args, pairs))
    partitions = []
    for pair in pairs:
        committed, owner = offsets.get(pair), owners.get(pair)
        end = bounds[pair][1] if pair in bounds else None
        partitions.append(
            {
                "topic": pair[0],
                "partition": pair[1],
                "committed": committed,
                "end": end,
                "lag": None if committed is None or end is None else max(end - committed, 0),
                "member": None if owner is None else owner.member_id,
                "client": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    coordinator = description.coordinator
    return {
        "group": name,
        "state": description.state.name.lower(),
        "type": description.type.name.lower(),
        "assignor": description.partition_assignor or None,
        "coordinator": None if coordinator is None else coordinator.id,
        "members": len(description.members),
        "lag": sum(partition["lag"] or 0 for partition in partitions),
        "partitions": partitions,
    }


def _print_description(group: dict[str, Any]) -> None:
    fields = ("group", "state", "type", "assignor", "coordinator", "members", "lag")
    print_fields([(name, group[name]) for name in fields])
    if not group["partitions"]:
        return
    print()
    columns = [
        Column("topic"),
        *(Column(name, right=True) for name in ("partition", "committed", "end", "lag")),
        Column("client"),
        Column("host"),
    ]
    names = ("topic", "partition", "committed", "end", "lag", "client", "host")
    print_table(columns, [[partition[name] for name in names] for partition in group["partitions"]])


def run_members(args: argparse.Namespace) -> int:
    admin = connect_admin(args)
    description = describe_group(admin, args.group)
    if not description.members:
        check_exists(description, committed_offsets(admin, args.group))
    members = [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "instance": member.group_instance_id,
            "partitions": [
                {"topic": partition.topic, "partition": partition.partition}
                for partition in sorted(member.assignment.topic_partitions if member.assignment else ())
            ],
        }
        for member in sorted(description.members, key=lambda member: str(member.member_id))
    ]
    if args.json:
        print_json(members)
    elif members:
        rows = [
            [
                member["member"],
                member["client"],
                member["host"],
                member["instance"],
                _name_partitions(member["partitions"]),
            ]
            for member in members
        ]
        print_table(["member", "client", "host", "instance", "partitions"], rows)
    else:
        note(f"group {args.group} has no members")
    return 0


def _name_partitions(partitions: Any) -> str:
    """[{a,0},{a,1},{b,0}] -> 'a: 0,1; b: 0'."""
    by_topic: dict[str, list[str]] = {}
    for partition in partitions:
        by_topic.setdefault(partition["topic"], []).append(str(partition["partition"]))
    return "; ".join(f"{topic}: {','.join(numbers)}" for topic, numbers in by_topic.items()) or "none"


def run_delete(args: argparse.Namespace) -> int:
    admin = connect_admin(args)

    def delete(names: list[str]) -> dict[str, Future[None]]:
        return admin.delete_consumer_groups(names, request_timeout=ANSWER_SECONDS_MAX)

    return delete_named(args, list(dict.fromkeys(args.groups)), "group", "committed offsets", delete)

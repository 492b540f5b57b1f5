"""`tidelog topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tidelog.cli import alter_topic, reassign
from tidelog.cli.clients import (
    ANSWER_SECONDS_MAX,
    cluster_metadata,
    connect_admin,
    describe_error,
    parse_pairs,
    query_bounds,
    result_of,
    unknown_topic,
)
from tidelog.cli.confirming import delete_named
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Column, note, print_fields, print_json, print_table

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient, TopicDescription

INTERNAL_PREFIX = "__"
NO_TOPICS = "no topics yet; make one with `tidelog topics create NAME`"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("topics", help="create, list, describe, alter, move and delete topics")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    create = verbs.add_parser("create", help="make a topic")
    create.add_argument("name", metavar="NAME")
    create.add_argument(
        "-p", "--partitions", type=int, metavar="N", help="number of partitions (default: the broker's)"
    )
    create.add_argument(
        "-r", "--replication-factor", type=int, metavar="R", help="replicas of each partition (default: the broker's)"
    )
    create.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="a topic setting")
    create.add_argument("--if-not-exists", action="store_true", help="do nothing when the topic is there")
    _finish(create, run_create)

    listing = verbs.add_parser("list", help="name all topics")
    listing.add_argument("--internal", action="store_true", help=f"also those whose name starts with {INTERNAL_PREFIX}")
    _finish(listing, run_list)

    describe = verbs.add_parser("describe", help="show partitions, offsets and changed settings")
    describe.add_argument("names", nargs="*", metavar="NAME", help=f"(default: all but those with {INTERNAL_PREFIX})")
    _finish(describe, run_describe)

    alter = verbs.add_parser("alter", help="add partitions, change settings or the number of replicas")
    alter_topic.add_arguments(alter)
    _finish(alter, alter_topic.run)

    reassigning = verbs.add_parser("reassign", help="move partitions to other nodes")
    reassign.add_arguments(reassigning)
    _finish(reassigning, reassign.run)

    delete = verbs.add_parser("delete", help="remove topics and their records")
    delete.add_argument("names", nargs="+", metavar="NAME")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    delete.add_argument("--if-exists", action="store_true", help="leave out topics that are not there")
    _finish(delete, run_delete)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run_create(args: argparse.Namespace) -> int:
    configs = parse_pairs(args.config, "--config")
    admin = connect_admin(args)
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    # -1 leaves the choice to the broker (num.partitions, default.replication.factor).
    topic = NewTopic(
        args.name,
        num_partitions=-1 if args.partitions is None else args.partitions,
        replication_factor=-1 if args.replication_factor is None else args.replication_factor,
        config=configs,
    )
    created = True
    future = admin.create_topics([topic], request_timeout=ANSWER_SECONDS_MAX)[args.name]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise CommandError(f"cannot create topic {args.name}: {describe_error(error.args[0])}") from None
        if not args.if_not_exists:
            raise CommandError(
                f"topic {args.name} exists already; --if-not-exists accepts that, `tidelog topics alter` changes it"
            ) from None
        created = False
    if args.json:
        print_json({"name": args.name, "created": created})
    else:
        print(f"created topic {args.name}" if created else f"topic {args.name} was there already")
    return 0


def run_list(args: argparse.Namespace) -> int:
    admin = connect_admin(args)
    topics = [
        {
            "name": topic.topic,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            "internal": str(topic.topic).startswith(INTERNAL_PREFIX),
        }
        for _, topic in sorted(cluster_metadata(admin, args).topics.items())
    ]
    if not args.internal:
        topics = [topic for topic in topics if not topic["internal"]]
    if args.json:
        print_json(topics)
    elif topics:
        columns = [Column("topic"), Column("partitions", right=True), Column("replication", right=True)]
        rows = [[topic["name"], topic["partitions"], topic["replication_factor"]] for topic in topics]
        print_table(columns, rows)
    else:
        note(NO_TOPICS)
    return 0


def run_describe(args: argparse.Namespace) -> int:
    admin = connect_admin(args)
    names = list(dict.fromkeys(args.names))
    if not names:
        names = sorted(n for n in cluster_metadata(admin, args).topics if not n.startswith(INTERNAL_PREFIX))
    described = [_describe(admin, description) for description in _describe_topics(admin, names)]
    if args.json:
        print_json(described)
        return 0
    if not described:
        note(NO_TOPICS)
    for index, topic in enumerate(described):
        if index:
            print()
        _print_description(topic)
    return 0


def _describe_topics(admin: AdminClient, names: list[str]) -> list[TopicDescription]:
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    if not names:
        return []
    futures = admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_SECONDS_MAX)
    found = []
    for name in names:
        try:
            found.append(futures[name].result())
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise CommandError(unknown_topic(name)) from None
            raise CommandError(f"topic {name}: {describe_error(error.args[0])}") from None
    return found


def _describe(admin: AdminClient, topic: TopicDescription) -> dict[str, Any]:
    bounds = query_bounds(
        admin, [(topic.name, partition.id) for partition in topic.partitions if partition.leader is not None]
    )
    partitions: list[dict[str, Any]] = []
    for partition in sorted(topic.partitions, key=lambda partition: partition.id):
        first, end = bounds.get((topic.name, partition.id), (None, None))
        partitions.append(
            {
                "partition": partition.id,
                "leader": None if partition.leader is None else partition.leader.id,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "earliest": first,
                "latest": end,
                "offsets": None if first is None or end is None else end - first,
            }
        )
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": max((len(partition["replicas"]) for partition in partitions), default=0),
        "configs": _changed_configs(admin, topic.name),
        "partitions": partitions,
    }


def _changed_configs(admin: AdminClient, name: str) -> dict[str, str | None]:
    from confluent_kafka.admin import ConfigResource, ConfigSource

    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    future = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS_MAX)[resource]
    entries = result_of(future, f"settings of topic {name}")
    return {
        entry.name: entry.value
        for entry in sorted(entries.values(), key=lambda entry: str(entry.name))
        if ConfigSource(entry.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def _print_description(topic: dict[str, Any]) -> None:
    partitions = topic["partitions"]
    configs = ", ".join(f"{name}={value}" for name, value in topic["configs"].items())
    print_fields(
        [
            ("topic", topic["name"]),
            ("id", topic["topic_id"]),
            ("partitions", len(partitions)),
            ("replication", topic["replication_factor"]),
            ("settings", configs or "all default"),
            ("offsets", sum(partition["offsets"] or 0 for partition in partitions)),
        ]
    )
    print()
    columns = [
        Column("partition", right=True),
        Column("leader", right=True),
        Column("replicas"),
        Column("in sync"),
        Column("earliest", right=True),
        Column("latest", right=True),
        Column("offsets", right=True),
    ]
    rows = [
        [
            partition["partition"],
            "none" if partition["leader"] is None else partition["leader"],
            ",".join(map(str, partition["replicas"])),
            ",".join(map(str, partition["isr"])),
            partition["earliest"],
            partition["latest"],
            partition["offsets"],
        ]
        for partition in partitions
    ]
    print_table(columns, rows)


def run_delete(args: argparse.Namespace) -> int:
    admin = connect_admin(args)

    def delete(names: list[str]) -> dict[str, Future[None]]:
        return admin.delete_topics(names, request_timeout=ANSWER_SECONDS_MAX)

    names = list(dict.fromkeys(args.names))
    if args.if_exists:
        present = cluster_metadata(admin, args).topics
        names = [name for name in names if name in present]
    return delete_named(args, names, "topic", "all records", delete)

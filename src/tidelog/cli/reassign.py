"""Reassignments from the command line: `tidelog topics reassign`, and the moves behind `cluster drain|rebalance`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from tidelog.cli.clients import unknown_topic
from tidelog.cli.cluster_state import read_state
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Progress, note, print_json, print_table
from tidelog.cli.wire import BrokerConnection, connect_broker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

PARTITIONS_PER_REQUEST_MAX = 1000
POLL_SECONDS = 0.1

Plan = Mapping[TopicPartition, tuple[int, ...] | None]
"""New replicas; None calls a reassignment off."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the topic; without one, what is under way is listed")
    parser.add_argument("--partition", type=int, metavar="P", help="only this one (default: all)")
    parser.add_argument("--replicas", metavar="N,N,...", help="nodes of its replicas, the preferred leader first")
    parser.add_argument("--cancel", action="store_true", help="cancel what is under way")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the replicas are in sync")


def run(args: argparse.Namespace) -> int:
    with connect_broker(args) as connection:
        if args.name is None:
            return _show(args, list_ongoing(connection))
        if args.cancel == bool(args.replicas):
            raise UsageError("one of --replicas and --cancel is needed")
        of_topic = [partition for partition in read_state(connection).partitions if partition.topic == args.name]
        partitions = [partition for partition in of_topic if args.partition in (None, partition.partition)]
        if not of_topic:
            raise CommandError(unknown_topic(args.name))
        if not partitions:
            raise CommandError(f"topic {args.name} has no partition {args.partition}; it has {len(of_topic)}")
        replicas = None if args.cancel else _parse_replicas(args.replicas)
        if args.cancel:
            partitions = [partition for partition in partitions if partition in list_ongoing(connection)]
        carry_out(connection, dict.fromkeys(partitions, replicas), wait=not args.no_wait and not args.cancel)
    if args.json:
        print_json({"topic": args.name, "partitions": [p.partition for p in partitions], "replicas": replicas})
    else:
        verb = "stay where they were" if args.cancel else "are being moved" if args.no_wait else "have moved"
        print(f"{len(partitions)} partitions of {args.name} {verb}")
    return 0


def _parse_replicas(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--replicas needs node ids with commas, got {text!r}") from None


def _show(args: argparse.Namespace, ongoing: Mapping[TopicPartition, Any]) -> int:
    if args.json:
        print_json(
            [
                {"partition": str(p), "adding": o.adding_replicas, "removing": o.removing_replicas}
                for p, o in ongoing.items()
            ]
        )
    elif ongoing:
        print_table(
            ["partition", "replicas", "adding", "removing"],
            [
                [str(p), _ids(o.replicas), _ids(o.adding_replicas), _ids(o.removing_replicas)]
                for p, o in ongoing.items()
            ],
        )
    else:
        note("nothing is being reassigned")
    return 0


def _ids(node_ids: list[int]) -> str:
    return ",".join(map(str, node_ids)) or "-"


def describe_plan(
    placement: Mapping[TopicPartition, tuple[int, ...]], plan: Mapping[TopicPartition, tuple[int, ...]]
) -> list[dict[str, Any]]:
    return [{"partition": str(p), "from": placement[p], "to": replicas} for p, replicas in plan.items()]


def carry_out(connection: BrokerConnection, plan: Plan, *, wait: bool) -> None:
    """Asks for the moves, and waits until the replicas are in sync where they shall be."""
    from tidelog.protocol.generated.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    entries = list(plan.items())
    for first in range(0, len(entries), PARTITIONS_PER_REQUEST_MAX):
        topics: dict[str, list[ReassignablePartition]] = {}
        for partition, replicas in entries[first : first + PARTITIONS_PER_REQUEST_MAX]:
            topics.setdefault(partition.topic, []).append(
                ReassignablePartition(
                    partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=found) for name, found in topics.items()]
        )
        answer = connection.call(request, 1)
        _check(answer.error_code, answer.error_message, "the cluster")
        for topic in answer.responses:
            for found in topic.partitions:
                _check(found.error_code, found.error_message, f"{topic.name}-{found.partition_index}")
    if wait:
        wait_until_moved(connection, set(plan))


def _check(code: int, message: str | None, subject: str) -> None:
    if code:
        raise CommandError(f"{subject} cannot be reassigned: {message or ErrorCode(code).message}")


def wait_until_moved(connection: BrokerConnection, moving: set[TopicPartition]) -> None:
    progress = Progress("moved", len(moving))
    try:
        while left := moving & set(list_ongoing(connection)):
            progress.update(len(moving) - len(left))
            time.sleep(POLL_SECONDS)
    finally:
        progress.close()


def list_ongoing(connection: BrokerConnection) -> dict[TopicPartition, Any]:
    from tidelog.protocol.generated.list_partition_reassignments import ListPartitionReassignmentsRequest

    answer = connection.call(ListPartitionReassignmentsRequest(topics=None), 0)
    _check(answer.error_code, answer.error_message, "the cluster")
    return {
        TopicPartition(topic.name, found.partition_index): found
        for topic in answer.topics
        for found in topic.partitions
    }

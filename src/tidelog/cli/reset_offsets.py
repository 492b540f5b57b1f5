"""`tidelog groups reset-offsets`: moves the committed offsets of a group that has no members at the moment.

New offsets are always kept within what the log holds. Without --execute nothing is changed, the plan is only shown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.clients import (
    ANSWER_SECONDS_MAX,
    connect_admin,
    existing_partitions,
    partition_ids,
    query_bounds,
    query_offsets,
    result_of,
)
from tidelog.cli.confirming import confirm
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Column, note, print_json, print_table
from tidelog.cli.times import parse_time

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Target(NamedTuple):
    """Where offsets are to go: earliest, latest, current, offset, time or shift."""

    kind: str
    number: int = 0


def add_reset_parser(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
) -> tuple[argparse.ArgumentParser, Callable[[argparse.Namespace], int]]:
    parser = verbs.add_parser(
        "reset-offsets",
        help="move committed offsets (shows the plan; --execute does it)",
        description="Shows where the committed offsets of a group would go, and moves them with --execute. The group "
        "must have no members.",
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "-t", "--topic", action="append", default=[], metavar="T[:P,P]", help="a topic, or some of its partitions"
    )
    parser.add_argument("--all-topics", action="store_true", help="all topics the group has committed")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-earliest", action="store_true", help="to the first record")
    target.add_argument("--to-latest", action="store_true", help="behind the last record")
    target.add_argument("--to-current", action="store_true", help="leave them; commit where nothing was yet")
    target.add_argument("--to-offset", type=int, metavar="N")
    target.add_argument("--to-time", metavar="T", help="first record at or after: ISO 8601, milliseconds, or ago (10m)")
    target.add_argument("--shift-by", type=int, metavar="N", help="forwards, or back with a negative number")
    parser.add_argument("--execute", action="store_true", help="do it, after the plan was shown and agreed to")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return parser, run_reset


def run_reset(args: argparse.Namespace) -> int:
    if bool(args.topic) == args.all_topics:
        raise UsageError("give --topic or --all-topics")
    target = parse_target(args, int(time.time() * 1000))
    chosen = [parse_topic(text) for text in args.topic]
    admin = connect_admin(args)
    from tidelog.cli.groups import committed_offsets, describe_group

    description = describe_group(admin, args.group)
    if args.execute and description.members:
        raise CommandError(f"group {args.group} has {len(description.members)} members; stop them first")
    committed = committed_offsets(admin, args.group)
    pairs = _choose_partitions(admin, args, chosen, committed)
    moves = _plan(admin, target, pairs, committed)
    if not args.json:
        _show(target, moves)
    if args.execute:
        if not args.yes and not confirm(f"move the offsets of group {args.group} in {len(moves)} partitions?"):
            raise CommandError("nothing moved")
        _commit(admin, args.group, moves)
    if args.json:
        print_json({"group": args.group, "executed": args.execute, "partitions": moves})
    else:
        note(f"group {args.group} moved" if args.execute else "nothing was changed; add --execute to do it")
    return 0


def _show(target: Target, moves: list[dict[str, Any]]) -> None:
    columns = [Column("topic"), *(Column(name, right=True) for name in ("partition", "committed", "new", "change"))]
    rows = [
        [move["topic"], move["partition"], move["committed"], move["new"], _change(move["committed"], move["new"])]
        for move in moves
    ]
    print_table(columns, rows)
    if target.kind == "offset" and any(move["new"] != target.number for move in moves):
        note(f"offset {target.number} is not everywhere: where it is missing, the nearest there is")


def parse_target(args: argparse.Namespace, now_ms: int) -> Target:
    if args.to_time is not None:
        try:
            return Target("time", parse_time(args.to_time, now_ms))
        except ValueError as error:
            raise UsageError(f"--to-time: {error}") from None
    if args.to_offset is not None:
        if args.to_offset < 0:
            raise UsageError("--to-offset must not be negative")
        return Target("offset", args.to_offset)
    if args.shift_by is not None:
        return Target("shift", args.shift_by)
    return Target("earliest" if args.to_earliest else "latest" if args.to_latest else "current")


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """'orders:0,2' -> ('orders', [0, 2]); 'orders' -> ('orders', None)."""
    topic, separator, numbers = text.partition(":")
    if not separator:
        return topic, None
    try:
        return topic, sorted({int(number) for number in numbers.split(",")})
    except ValueError:
        raise UsageError(f"--topic is a name, or NAME:0,1,2 for some partitions, got {text!r}") from None


def _choose_partitions(
    admin: AdminClient,
    args: argparse.Namespace,
    chosen: list[tuple[str, list[int] | None]],
    committed: dict[tuple[str, int], int],
) -> list[tuple[str, int]]:
    if args.all_topics:
        if not committed:
            raise CommandError(f"group {args.group} has committed nothing; name topics with --topic")
        return existing_partitions(admin, args, sorted(committed))
    pairs = set()
    for topic, numbers in chosen:
        present = partition_ids(admin, args, topic)
        for number in present if numbers is None else numbers:
            if number not in present:
                raise CommandError(f"topic {topic} has no partition {number}; it has {len(present)}")
            pairs.add((topic, number))
    return sorted(pairs)


def _plan(
    admin: AdminClient, target: Target, pairs: list[tuple[str, int]], committed: dict[tuple[str, int], int]
) -> list[dict[str, Any]]:
    bounds = query_bounds(admin, pairs)
    by_time: dict[tuple[str, int], int] = {}
    if target.kind == "time":
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        asked = [TopicPartition(*pair) for pair in pairs]
        by_time = query_offsets(admin, asked, OffsetSpec.for_timestamp(target.number))
    return [
        {
            "topic": pair[0],
            "partition": pair[1],
            "committed": committed.get(pair),
            "new": new_offset(target, committed.get(pair), *bounds[pair], by_time.get(pair, -1)),
        }
        for pair in pairs
    ]


def new_offset(target: Target, committed: int | None, first: int, end: int, by_time: int) -> int:
    """The offset to commit in a log that holds `first` up to `end`; what was never committed starts at `first`."""
    current = first if committed is None else committed
    match target.kind:
        case "earliest":
            wanted = first
        case "latest":
            wanted = end
        case "offset":
            wanted = target.number
        case "shift":
            wanted = current + target.number
        case "time":
            wanted = end if by_time < 0 else by_time
        case _:
            wanted = current
    return min(max(wanted, first), end)


def _commit(admin: AdminClient, group: str, moves: list[dict[str, Any]]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    offsets = [TopicPartition(move["topic"], move["partition"], move["new"]) for move in moves]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    future = admin.alter_consumer_group_offsets(request, request_timeout=ANSWER_SECONDS_MAX)[group]
    answer = result_of(future, f"cannot move the offsets of group {group}")
    for partition in answer.topic_partitions:
        if partition.error is not None:
            raise CommandError(f"group {group}, {partition.topic}-{partition.partition}: {partition.error.str()}")


def _change(before: int | None, after: int) -> str | None:
    return None if before is None else f"{after - before:+,}"

"""`tidelog transactions`: list transactional ids, show what one is doing, end what hangs.

Aborting by id takes the id away from its producer, which is fenced; aborting by topic, partition and start offset ends
a transaction that no coordinator knows any more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tidelog.cli.confirming import confirm
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import Column, format_seconds, note, print_fields, print_json, print_table
from tidelog.cli.times import format_time, parse_duration_ms
from tidelog.cli.wire import BrokerConnection, connect_broker
from tidelog.model.errors import ErrorCode
from tidelog.transactions.core.state import TransactionState

R = TypeVar("R")
TRANSACTION_KEY = 1
ABORT_SECONDS_MAX = 30
COORDINATOR_SECONDS_MAX = 10
BUSY_SECONDS = 0.1
NOT_YET = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The coordinator moves, or ends the last transaction of the id: it is asked again."""
FENCE_TIMEOUT_MS = 60_000
STATES = tuple(state.value for state in TransactionState if state is not TransactionState.DEAD)
"""Of the ids that are listed: one that is dead is not."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("transactions", help="list, describe and abort transactions")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="name all transactional ids")
    listing.add_argument(
        "--state", action="append", metavar="S", default=[], help="only ids in this state (Ongoing, ...)"
    )
    listing.add_argument("--longer-than", metavar="TIME", help="only transactions open for longer (30s, 5m, 2h)")
    listing.add_argument("--pattern", metavar="REGEX", help="only ids that match")
    _finish(listing, run_list)

    describe = verbs.add_parser("describe", help="state, producer, age and partitions of transactional ids")
    describe.add_argument("ids", nargs="+", metavar="ID")
    _finish(describe, run_describe)

    abort = verbs.add_parser("abort", help="abort the open transaction of an id, and fence its producer")
    abort.add_argument("id", nargs="?", metavar="ID", help="the transactional id")
    abort.add_argument(
        "--topic", metavar="T", help="abort a transaction that hangs in a partition of this topic instead"
    )
    abort.add_argument("--partition", type=int, metavar="P", help="the partition")
    abort.add_argument("--start-offset", type=int, metavar="N", help="where the transaction begins")
    abort.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _finish(abort, run_abort)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


# -- brokers to ask ----------------------------------------------------------------------------------------------------


def _brokers(connection: BrokerConnection) -> dict[int, tuple[str, int]]:
    from tidelog.protocol.generated.metadata import MetadataRequest

    answer = connection.call(MetadataRequest(topics=[]), 9)
    return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


def at_coordinator(
    connection: BrokerConnection, transactional_id: str, ask: Callable[[BrokerConnection, str], R], seconds_max: float
) -> R:
    """What the coordinator of an id says; one that is busy, or takes over, is asked again."""
    deadline_s = time.monotonic() + seconds_max
    while True:
        try:
            with find_coordinator(connection, transactional_id) as coordinator:
                return ask(coordinator, transactional_id)
        except _NotYetError as error:
            if time.monotonic() > deadline_s:
                raise CommandError(str(error)) from None
        time.sleep(BUSY_SECONDS)


def find_coordinator(connection: BrokerConnection, transactional_id: str) -> BrokerConnection:
    from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest

    request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
    [found] = connection.call(request, 4).coordinators
    check_answer(found.error_code, f"cannot find the coordinator of {transactional_id}")
    return BrokerConnection(found.host, found.port)


class _NotYetError(CommandError):
    """The coordinator is being found, takes over, or is busy with the id."""


def check_answer(code: int, subject: str) -> None:
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise CommandError(f"{subject}: there is no such transactional id; `tidelog transactions list` names all")
    if code in NOT_YET:
        raise _NotYetError(f"{subject}: {ErrorCode(code).name}")
    if code != ErrorCode.NONE:
        raise CommandError(f"{subject}: {ErrorCode(code).name}")


# -- list --------------------------------------------------------------------------------------------------------------


def run_list(args: argparse.Namespace) -> int:
    try:
        longer_ms = -1 if args.longer_than is None else parse_duration_ms(args.longer_than)
    except ValueError as error:
        raise UsageError(f"--longer-than: {error}") from None
    states = [_state_name(text) for text in args.state]
    listed = find_transactions(args, states=states, longer_ms=longer_ms, pattern=args.pattern)
    if args.json:
        print_json(listed)
    elif listed:
        print_table(
            ["id", "state", Column("producer id", right=True), Column("coordinator", right=True)],
            [[found["id"], found["state"], found["producer_id"], found["coordinator"]] for found in listed],
        )
    else:
        note("no transactional ids" + (" like that" if args.state or args.pattern or args.longer_than else ""))
    return 0


def find_transactions(
    args: argparse.Namespace, *, states: Sequence[str] = (), longer_ms: int = -1, pattern: str | None = None
) -> list[dict[str, Any]]:
    """All transactional ids by name, as their coordinators list them."""
    from tidelog.protocol.generated.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=list(states), duration_filter=longer_ms, transactional_id_pattern=pattern
    )
    version = 2 if pattern else 1
    listed: list[dict[str, Any]] = []
    with connect_broker(args) as first:
        for node_id, address in sorted(_brokers(first).items()):
            with BrokerConnection(*address) as broker:
                answer = broker.call(request, version)
            if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise UsageError(f"--pattern: {pattern!r} is no regular expression (INVALID_REGULAR_EXPRESSION)")
            check_answer(answer.error_code, f"broker {node_id} cannot list transactions")
            if answer.unknown_state_filters:
                raise UsageError(f"unknown state {answer.unknown_state_filters[0]}; states are {', '.join(STATES)}")
            listed += [
                {
                    "id": found.transactional_id,
                    "state": found.transaction_state,
                    "producer_id": found.producer_id,
                    "coordinator": node_id,
                }
                for found in answer.transaction_states
            ]
    return sorted(listed, key=lambda found: str(found["id"]))


def _state_name(text: str) -> str:
    """A state however it is written: ongoing, complete-commit."""
    plain = text.replace("-", "").replace("_", "").lower()
    return next((state for state in STATES if state.lower() == plain), text)


# -- describe ----------------------------------------------------------------------------------------------------------


def run_describe(args: argparse.Namespace) -> int:
    with connect_broker(args) as first:
        described = [
            at_coordinator(first, transactional_id, _describe, COORDINATOR_SECONDS_MAX)
            for transactional_id in dict.fromkeys(args.ids)
        ]
    if args.json:
        print_json(described)
        return 0
    for index, found in enumerate(described):
        if index:
            print()
        age = "" if found["age_ms"] is None else format_seconds(found["age_ms"] / 1000)
        started = "" if found["start_ms"] is None else format_time(found["start_ms"])
        print_fields(
            [
                ("id", found["id"]),
                ("state", found["state"]),
                ("producer", f"{found['producer_id']}, epoch {found['producer_epoch']}"),
                ("timeout", format_seconds(found["timeout_ms"] / 1000)),
                ("started", f"{started} ({age} ago)" if started else "no transaction"),
                ("partitions", ", ".join(found["partitions"]) or "none"),
            ]
        )
    return 0


def _describe(coordinator: BrokerConnection, transactional_id: str) -> dict[str, Any]:
    from tidelog.protocol.generated.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    [found] = coordinator.call(request, 0).transaction_states
    check_answer(found.error_code, transactional_id)
    is_open = found.transaction_state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    start_ms = found.transaction_start_time_ms if is_open else None
    return {
        "id": transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "start_ms": start_ms,
        "age_ms": None if start_ms is None else max(0, int(time.time() * 1000) - start_ms),
        "partitions": [f"{topic.topic}-{index}" for topic in found.topics for index in sorted(topic.partitions)],
    }


# -- abort -------------------------------------------------------------------------------------------------------------


def run_abort(args: argparse.Namespace) -> int:
    hanging = (args.topic, args.partition, args.start_offset)
    if args.id is None:
        if None in hanging:
            raise UsageError("name a transactional id, or give --topic, --partition and --start-offset")
        return _abort_hanging(args)
    if hanging != (None, None, None):
        raise UsageError("either a transactional id, or --topic, --partition and --start-offset")
    with connect_broker(args) as first:
        before = at_coordinator(first, args.id, _describe, COORDINATOR_SECONDS_MAX)
        if not args.yes and not confirm(f"abort {args.id} ({before['state'].lower()}) and shut its producer out?"):
            raise CommandError("nothing aborted")
        epoch = at_coordinator(first, args.id, _fence, ABORT_SECONDS_MAX)
    if args.json:
        print_json({"id": args.id, "was": before["state"], "producer_epoch": epoch})
    else:
        print(f"{args.id}: producer {before['producer_id']} is fenced" + _outcome(before))
    return 0


def _outcome(before: dict[str, Any]) -> str:
    if before["state"] != "Ongoing":
        return ", no transaction was open"
    return f", its transaction in {len(before['partitions'])} partitions is aborted"


def _fence(coordinator: BrokerConnection, transactional_id: str) -> int:
    """Becomes the newest producer of the id: whatever was open is aborted. To be asked again until that is done."""
    from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCE_TIMEOUT_MS)
    answer = coordinator.call(request, 4)
    check_answer(answer.error_code, f"cannot abort {transactional_id}")
    return int(answer.producer_epoch)


def _abort_hanging(args: argparse.Namespace) -> int:
    place = f"{args.topic}-{args.partition}"
    with connect_broker(args) as first, _leader(first, args.topic, args.partition) as leader:
        producer = _find_producer(leader, args)
        if not args.yes and not confirm(
            f"abort the transaction of producer {producer.producer_id} that begins at {args.start_offset} in {place}?"
        ):
            raise CommandError("nothing aborted")
        _write_abort(leader, args, producer)
    if args.json:
        print_json({"partition": place, "start_offset": args.start_offset, "producer_id": producer.producer_id})
    else:
        print(f"{place}: the transaction of producer {producer.producer_id} is aborted")
    return 0


def _leader(connection: BrokerConnection, topic: str, partition: int) -> BrokerConnection:
    from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer = connection.call(request, 9)
    leaders = {found.partition_index: found.leader_id for found in answer.topics[0].partitions}
    addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    if leaders.get(partition) not in addresses:
        raise CommandError(f"{topic}-{partition} does not exist or has no leader")
    return BrokerConnection(*addresses[leaders[partition]])


def _find_producer(leader: BrokerConnection, args: argparse.Namespace) -> Any:
    from tidelog.protocol.generated.describe_producers import DescribeProducersRequest, TopicRequest

    request = DescribeProducersRequest(topics=[TopicRequest(name=args.topic, partition_indexes=[args.partition])])
    [answer] = leader.call(request, 0).topics[0].partitions
    check_answer(answer.error_code, f"cannot describe the producers of {args.topic}-{args.partition}")
    for producer in answer.active_producers:
        if producer.current_txn_start_offset == args.start_offset:
            return producer
    starts = sorted(p.current_txn_start_offset for p in answer.active_producers if p.current_txn_start_offset >= 0)
    known = f"open ones begin at {', '.join(map(str, starts))}" if starts else "none is open"
    raise CommandError(f"no transaction in {args.topic}-{args.partition} begins at {args.start_offset}; {known}")


def _write_abort(leader: BrokerConnection, args: argparse.Namespace, producer: Any) -> None:
    from tidelog.protocol.generated.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(producer.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=args.topic, partition_indexes=[args.partition])],
    )
    answer = leader.call(WriteTxnMarkersRequest(markers=[marker]), 1)
    check_answer(answer.markers[0].topics[0].partitions[0].error_code, f"cannot abort in {args.topic}-{args.partition}")

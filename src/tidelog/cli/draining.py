"""`tidelog cluster drain|undrain|rebalance`: replicas move off a node, come back to it, and are spread evenly.

A drain keeps the replication factor of every topic, or is refused. What a drain with that option takes away, the
cluster remembers (`tidelog.config.lowered`), `cluster status` shows, and undrain and rebalance give back.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.cli.cluster_state import ClusterState, read_state
from tidelog.cli.errors import NO_CONTROLLER, CommandError
from tidelog.cli.output import note, print_json, print_table
from tidelog.cli.reassign import carry_out, describe_plan
from tidelog.cli.replication_factor import ALLOW_FEWER, MIN_INSYNC, read_min_insync
from tidelog.cli.wire import BrokerConnection, connect_broker
from tidelog.metadata.image import CORDONED
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

BROKER_RESOURCE = 4
CONFIG_SET, CONFIG_DELETE = 0, 1
TOPICS_NAMED_MAX = 3

Moves = Mapping[TopicPartition, tuple[int, ...]]


class Shortfall(NamedTuple):
    """A topic that would not keep its replicas."""

    topic: str
    replicas: int
    """Of the partition that would have the fewest."""
    factor: int
    min_insync: int

    @property
    def is_below_min_insync(self) -> bool:
        return self.replicas < self.min_insync


def find_shortfalls(
    placement: Moves, plan: Moves, factors: Mapping[str, int], min_insync: Mapping[str, int]
) -> list[Shortfall]:
    """Topics that the plan takes replicas from. `factors` are those that earlier drains have lowered already."""
    fewest: dict[str, int] = {}
    most: dict[str, int] = {}
    for partition, replicas in plan.items():
        if len(replicas) < len(placement[partition]):
            topic = partition.topic
            fewest[topic] = min(len(replicas), fewest.get(topic, len(replicas)))
            most[topic] = max(len(placement[partition]), most.get(topic, 0))
    return [
        Shortfall(topic, count, max(most[topic], factors.get(topic, 0)), min_insync.get(topic, 1))
        for topic, count in sorted(fewest.items())
    ]


def explain_refusal(node_id: int, short: Sequence[Shortfall]) -> str:
    below = [each for each in short if each.is_below_min_insync]
    # What is worse is named first.
    ordered = [*below, *(each for each in short if not each.is_below_min_insync)]
    named = ", ".join(f"{each.topic} {each.replicas} of {each.factor}" for each in ordered[:TOPICS_NAMED_MAX])
    more = f" and {len(short) - TOPICS_NAMED_MAX} more" if len(short) > TOPICS_NAMED_MAX else ""
    worse = f", {len(below)} of them below {MIN_INSYNC}" if below else ""
    topics = "1 topic" if len(short) == 1 else f"{len(short)} topics"
    return (
        f"without node {node_id} {topics} would have fewer replicas ({named}{more}){worse}; start another node, lower "
        f"their factor (`tidelog topics alter NAME --replication-factor N`), or accept it with {ALLOW_FEWER}"
    )


def run_drain(args: argparse.Namespace) -> int:
    with connect_broker(args) as connection:
        state = read_state(connection)
        require_node(state, args.node)
        was_drained = args.node in state.drained
        plan = _plan_drain(state, args.node)
        short = _check_drain(args, connection, state, plan)
        if not args.dry_run:
            # First no new ones, then a look at what there is: nothing can come in between.
            _set_drained(connection, args.node, is_drained=True)
            try:
                state = read_state(connection)
                plan = _plan_drain(state, args.node)
                short = _check_drain(args, connection, state, plan)
            except CommandError:
                if not was_drained:
                    _set_drained(connection, args.node, is_drained=False)
                raise
        if short:
            topics = "1 topic has" if len(short) == 1 else f"{len(short)} topics have"
            note(
                f"{topics} fewer replicas until `tidelog cluster undrain {args.node}`: fewer failures are survived, "
                f"and acks=all is answered by the replicas that are left, even where {MIN_INSYNC} is more"
            )
        return _move(args, connection, state, plan, f"node {args.node} is empty")


def _plan_drain(state: ClusterState, node_id: int) -> dict[TopicPartition, tuple[int, ...]]:
    from tidelog.controller.core.spreading import plan_drain

    racks = {other: rack for other, rack in state.open_racks().items() if other != node_id}
    if not racks:
        raise CommandError(f"no node but {node_id} takes replicas, and new topics need one; start another node first")
    placement = state.placement()
    plan = plan_drain(placement, racks, node_id)
    stuck = [p for p, replicas in placement.items() if node_id in replicas and p not in plan]
    if stuck:
        raise CommandError(f"no other node can take {stuck[0]} and {len(stuck) - 1} more; start another node first")
    return plan


def _check_drain(
    args: argparse.Namespace, connection: BrokerConnection, state: ClusterState, plan: Moves
) -> list[Shortfall]:
    placement = state.placement()
    short = find_shortfalls(placement, plan, state.lowered_factors(), {})
    if short and not args.allow_fewer_replicas:
        needed = read_min_insync(connection, [each.topic for each in short])
        short = find_shortfalls(placement, plan, state.lowered_factors(), needed)
        raise CommandError(explain_refusal(args.node, short))
    return short


def run_undrain(args: argparse.Namespace) -> int:
    from tidelog.controller.core.spreading import plan_restore

    with connect_broker(args) as connection:
        state = read_state(connection)
        require_node(state, args.node)
        if not args.dry_run:
            _set_drained(connection, args.node, is_drained=False)
            state = read_state(connection)
        # The node that answers may hear of the change a moment later.
        state.drained -= {args.node}
        plan = plan_restore(state.placement(), state.open_racks(), state.lowered_factors())
        moves = describe_plan(state.placement(), plan)
        short = _still_short(state, plan)
        if args.json:
            print_json({"undrained": args.node, "moves": moves, "still_lowered": short, "dry_run": args.dry_run})
        else:
            _print_moves(moves)
        if not args.dry_run:
            carry_out(connection, plan, wait=not args.no_wait)
    if args.json:
        return 0
    if args.dry_run:
        note("nothing was changed")
        return 0
    if plan:
        verb = "get back" if args.no_wait else "have back"
        print(f"node {args.node} takes replicas again; {len(plan)} partitions {verb} what drains took from them")
    else:
        print(f"node {args.node} takes replicas again; `tidelog cluster rebalance` gives it some")
    if short:
        topics = "1 topic still has" if len(short) == 1 else f"{len(short)} topics still have"
        note(
            f"{topics} fewer replicas than before their drain ({', '.join(short[:3])}); with "
            "another node, `tidelog cluster rebalance` gives them back"
        )
    return 0


def _still_short(state: ClusterState, plan: Moves) -> list[str]:
    after = {**state.placement(), **plan}
    factors = state.lowered_factors()
    return sorted({p.topic for p, replicas in after.items() if len(replicas) < factors.get(p.topic, 0)})


def _set_drained(connection: BrokerConnection, node_id: int, *, is_drained: bool) -> None:
    """By the setting of the broker that Kafka has for this."""
    from tidelog.protocol.generated.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    change = AlterableConfig(
        name=CORDONED,
        config_operation=CONFIG_SET if is_drained else CONFIG_DELETE,
        value="*" if is_drained else None,
    )
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(node_id), configs=[change])
    [answer] = connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    if answer.error_code == ErrorCode.NOT_CONTROLLER:
        raise CommandError(f"node {node_id} cannot be changed: {NO_CONTROLLER}")
    if answer.error_code:
        raise CommandError(
            f"node {node_id} cannot be changed: {answer.error_message or ErrorCode(answer.error_code).name}"
        )


def run_rebalance(args: argparse.Namespace) -> int:
    from tidelog.controller.core.spreading import plan_rebalance
    from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest

    with connect_broker(args) as connection:
        state = read_state(connection)
        plan = plan_rebalance(state.placement(), state.open_racks(), set(state.brokers), state.lowered_factors())
        code = _move(args, connection, state, plan, "replicas are spread evenly")
        if not args.dry_run:
            connection.call(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000), 2)
        return code


def _move(args: argparse.Namespace, connection: BrokerConnection, state: ClusterState, plan: Moves, done: str) -> int:
    moves = describe_plan(state.placement(), plan)
    if args.json:
        print_json({"moves": moves, "dry_run": args.dry_run})
    else:
        _print_moves(moves)
    if not args.dry_run:
        carry_out(connection, plan, wait=not args.no_wait)
    if not args.json:
        note("nothing has to move" if not moves else "nothing was moved" if args.dry_run else done)
    return 0


def _print_moves(moves: list[dict[str, Any]]) -> None:
    if moves:
        print_table(["partition", "from", "to"], [[m["partition"], _ids(m["from"]), _ids(m["to"])] for m in moves])


def _ids(node_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, node_ids))


def require_node(state: ClusterState, node_id: int) -> None:
    known = sorted(state.brokers)
    if node_id not in state.brokers:
        raise CommandError(f"there is no node {node_id}; the cluster has {', '.join(map(str, known))}")

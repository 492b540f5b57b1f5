"""`tidelog cluster`: run one for development, see how it does, empty or remove a node, even out the load."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.cli.cluster_state import read_state
from tidelog.cli.confirming import confirm
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.draining import require_node, run_drain, run_rebalance, run_undrain
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.node_arguments import NodeArguments
from tidelog.cli.output import Column, format_bytes, note, print_fields, print_json, print_table
from tidelog.cli.ready_line import ready_line
from tidelog.cli.replication_factor import ALLOW_FEWER
from tidelog.cli.upgrade import run_upgrade
from tidelog.cli.wire import connect_broker
from tidelog.model.errors import ErrorCode
from tidelog.version import __version__


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("cluster", help="start, watch and change a cluster")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    start = verbs.add_parser("start", help="run a local cluster of real processes, for development")
    start.add_argument("--nodes", type=int, default=3, metavar="N", help="number of nodes (default 3)")
    start.add_argument(
        "--data",
        metavar="DIR",
        default="./tidelog-cluster",
        help="directory for the data of all nodes (default ./tidelog-cluster)",
    )
    start.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="address of the first node (default 127.0.0.1:9092); the ports of the others count up",
    )
    start.add_argument("--http", metavar="HOST:PORT", help="HTTP door of the first node; ports count up")
    start.add_argument("--grpc", metavar="HOST:PORT", help="gRPC door of the first node; ports count up")
    start.add_argument("-o", dest="options", metavar="NAME=VALUE", action="append", default=[], help="any setting")
    start.add_argument(
        "--log-level", metavar="LEVEL", default="warning", help="debug, info, warning (default) or error"
    )
    start.add_argument("--log-format", choices=("human", "json"), help="form of the log lines (default human)")
    start.set_defaults(run=run_start)

    status = verbs.add_parser("status", help="quorum, nodes with their statistics, partitions in trouble")
    _finish(status, run_status)

    drain = verbs.add_parser("drain", help="move every replica off a node, and let no new ones come")
    drain.add_argument("node", type=int, metavar="NODE")
    drain.add_argument(
        ALLOW_FEWER,
        action="store_true",
        help="even if topics then have fewer replicas than their factor, until the node is undrained",
    )
    _finish(drain, run_drain, plan=True)

    undrain = verbs.add_parser(
        "undrain", help="let a drained node take replicas again, and give topics back what it took"
    )
    undrain.add_argument("node", type=int, metavar="NODE")
    _finish(undrain, run_undrain, plan=True)

    remove = verbs.add_parser("remove", help="forget a node that will not come back")
    remove.add_argument("node", type=int, metavar="NODE")
    remove.add_argument("--force", action="store_true", help="even if it holds replicas; they are given up")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask, even if it is still running")
    _finish(remove, run_remove)

    rebalance = verbs.add_parser("rebalance", help="spread replicas and leaders evenly over the nodes")
    _finish(rebalance, run_rebalance, plan=True)

    upgrade = verbs.add_parser("upgrade", help="let nodes use what this version brings, once all of them are upgraded")
    upgrade.add_argument("--dry-run", action="store_true", help="say whether it can be done, and change nothing")
    _finish(upgrade, run_upgrade)


def _finish(parser: argparse.ArgumentParser, run: Any, *, plan: bool = False) -> None:
    if plan:
        parser.add_argument("--dry-run", action="store_true", help="show the moves and make none")
        parser.add_argument("--no-wait", action="store_true", help="do not wait until everything has moved")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


# -- start -------------------------------------------------------------------------------------------------------------


def run_start(args: argparse.Namespace) -> int:
    from tidelog.config.listener import parse_address

    if not 1 <= args.nodes <= 99:
        raise UsageError("--nodes must be between 1 and 99")
    try:
        host, port = parse_address(args.listen)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from None
    log_format = _check_settings(args)
    replicas = min(3, args.nodes)
    arguments = ["--log-level", args.log_level, "-o", f"default.replication.factor={replicas}"]
    arguments += ["-o", f"min.insync.replicas={max(1, replicas - 1)}"]
    if args.log_format:
        arguments += ["--log-format", args.log_format]
    for option in args.options:
        arguments += ["-o", option]
    data = Path(args.data)
    each = NodeArguments(arguments, {"http": args.http, "grpc": args.grpc})
    return run_local(args.nodes, data, host or "127.0.0.1", port, arguments=each, log_format=log_format)


def _check_settings(args: argparse.Namespace) -> str:
    """Once, here: each of the nodes would say the same. Returns the form of the log lines."""
    from tidelog.cli.serve import require_unshared
    from tidelog.config.setting import ConfigError
    from tidelog.node.config_file import GivenSetting, load_config, parse_options, read_environment

    try:
        given, _ = read_environment(os.environ)
        given.append(GivenSetting("tidelog.log.level", args.log_level, "--log-level"))
        if args.log_format:
            given.append(GivenSetting("tidelog.log.format", args.log_format, "--log-format"))
        loaded = load_config([*given, *parse_options(args.options)])
    except ConfigError as error:
        raise CommandError(str(error)) from None
    if args.nodes > 1:
        require_unshared(loaded)
    return loaded.config.tidelog_log_format


def run_local(
    nodes: int, data: Path, host: str, port: int, *, first_id: int = 1, arguments: NodeArguments, log_format: str
) -> int:
    """A local cluster until a signal comes; one line when it is ready."""
    from tidelog.cli.local_cluster import LocalCluster, StartCalledOff

    started_s = time.monotonic()
    cluster = LocalCluster(nodes=nodes, data=data, host=host, port=port, first_id=first_id, arguments=arguments)
    cluster.catch_signals()
    try:
        cluster.start()
    except StartCalledOff:
        return 0
    took_ms = (time.monotonic() - started_s) * 1000
    line = ready_line(
        f"tidelog {__version__} cluster of {nodes} {'node' if nodes == 1 else 'nodes'} ready on {cluster.bootstrap}"
        f"{arguments.describe(nodes)}, data in {data}, {took_ms:.0f} ms",
        log_format,
        version=__version__,
        nodes=nodes,
        address=cluster.bootstrap,
        data=str(data),
        took_ms=round(took_ms),
    )
    print(line, flush=True)
    cluster.watch()
    return cluster.stop()


# -- status ------------------------------------------------------------------------------------------------------------


def run_status(args: argparse.Namespace) -> int:
    with connect_broker(args) as connection:
        state = read_state(connection)
    if args.json:
        print_json(state.document())
        return 0
    quorum = state.quorum
    print_fields(
        [
            ("cluster", state.cluster_id),
            ("controller", f"node {state.controller_id}" if state.controller_id >= 0 else "none"),
            ("metadata", f"term {quorum.get('term', '-')}, offset {quorum.get('high_watermark', '-')}"),
            ("partitions", len(state.partitions)),
            ("under-replicated", len(state.under_replicated)),
            ("without leader", len(state.leaderless)),
        ]
    )
    print()
    # Two tables, because one would be wider than most terminals.
    nodes = state.nodes()
    right = [Column(title, right=True) for title in ("leaders", "replicas", "up")]
    print_table([Column("node", right=True), "address", "state", "metadata", *right], [_role_row(n) for n in nodes])
    print()
    right = [Column(title, right=True) for title in ("node", "memory", "cpu", "records/s", "in/s", "out/s")]
    print_table(right, [_load_row(node) for node in nodes])
    for title, found in (("under-replicated", state.under_replicated), ("without leader", state.leaderless)):
        if found:
            print()
            print_table(
                ["partition", Column("leader", right=True), "replicas", "in sync"],
                [[str(p), s.leader, _ids(s.replicas), _ids(s.isr)] for p, s in found],
                title=title,
            )
    if not state.quorum:
        print()
        note("the quorum has no leader: start more of its voters; until then this is what the asked node knew last")
    if state.lowered:
        print()
    for topic in state.lowered_topics():
        nodes = topic["drained"]
        drained = f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
        print(
            f"topic {topic['topic']}: {topic['replicas']} of {topic['factor']} replicas, lowered by drain of {drained}"
        )
    return 0


def _role_row(node: dict[str, Any]) -> list[Any]:
    names = ("node_id", "address", "state", "quorum", "leaders", "replicas")
    return [*(node[name] for name in names), _statistic(node, "uptime_seconds", _duration)]


def _load_row(node: dict[str, Any]) -> list[Any]:
    return [
        node["node_id"],
        _statistic(node, "memory_bytes", format_bytes),
        _statistic(node, "cpu_percent", "{:.0f} %".format),
        _statistic(node, "records_in_per_second", "{:,.0f}".format),
        _statistic(node, "bytes_in_per_second", format_bytes),
        _statistic(node, "bytes_out_per_second", format_bytes),
    ]


def _statistic(node: dict[str, Any], name: str, form: Callable[[Any], str]) -> str | None:
    """None until the node has sent its statistics."""
    statistics = node["statistics"]
    return form(statistics[name]) if name in statistics else None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _ids(node_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, node_ids))


# -- changing ----------------------------------------------------------------------------------------------------------


def run_remove(args: argparse.Namespace) -> int:
    from tidelog.protocol.generated.unregister_broker import UnregisterBrokerRequest

    with connect_broker(args) as connection:
        state = read_state(connection)
        if not state.knows(args.node):
            require_node(state, args.node)
        held = sum(args.node in replicas for replicas in state.placement().values())
        if held and not args.force:
            raise CommandError(
                f"node {args.node} holds {held} replicas; `tidelog cluster drain {args.node}` moves them, --force "
                "gives them up"
            )
        is_running = state.is_alive(args.node)
        if is_running and not args.yes and not confirm(_removal_question(args.node, held)):
            raise CommandError("nothing removed")
        answer = connection.call(UnregisterBrokerRequest(broker_id=args.node), 0)
    if answer.error_code:
        raise CommandError(
            f"cannot remove node {args.node}: {answer.error_message or ErrorCode(answer.error_code).name}"
        )
    if args.json:
        print_json({"removed": args.node, "was_running": is_running})
    else:
        print(f"node {args.node} is removed" + (", which ends it: it was still running" if is_running else ""))
    return 0


def _removal_question(node_id: int, held: int) -> str:
    replicas = f" and give up its {held} replicas" if held else ""
    return f"node {node_id} is still running, and ends when it is removed; remove it{replicas}?"

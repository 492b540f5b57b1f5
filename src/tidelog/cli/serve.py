"""`tidelog serve`: runs a node until SIGTERM or SIGINT.

One line on standard output when clients can connect, logs on standard error. The first SIGTERM or SIGINT stops the
node in good order, the second ends the process at once. What keeps a node from starting is one line and exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.errors import CommandError, RemovedError
from tidelog.cli.ready_line import ready_line
from tidelog.compiled import is_compiled
from tidelog.config.setting import ConfigError
from tidelog.node.config_file import GivenSetting, LoadedConfig, load_config, parse_options, read_environment, read_file
from tidelog.node.errors import REMOVED, NodeStartError
from tidelog.node.event_loop import new_event_loop
from tidelog.node.stages import Loaded
from tidelog.runtime.collector import Collector
from tidelog.telemetry.logs import configure, get_logger
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.node.node import Node

STOP_SECONDS_MAX = 30.0
"""After this a stop is given up and the process ends; recovery deals with the rest at the next start."""

NODES_MAX = 99

_FLAGS = {
    "listen": "listeners",
    "data": "log.dirs",
    "node_id": "node.id",
    "advertise": "advertised.listeners",
    "admin": "admin.listen",
    "http": "http.listen",
    "grpc": "grpc.listen",
    "join": "controller.quorum.bootstrap.servers",
    "log_format": "tidelog.log.format",
    "log_level": "tidelog.log.level",
}
"""Flag -> the setting it is short for."""

_OF_ONE_NODE = {
    "advertised.listeners": None,
    "admin.listen": None,
    "http.listen": "--http",
    "http.advertised": None,
    "grpc.listen": "--grpc",
    "grpc.advertised": None,
}
"""Addresses that several nodes cannot share, each with the flag whose ports count up from node to node."""

logger = get_logger("tidelog.serve")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="run a node",
        description="Runs a node until SIGTERM or SIGINT. Settings come from the file, then TIDELOG_* variables of the "
        "environment, then flags, then -o; the later wins. `tidelog config explain` tells all of them.",
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="address for clients (default 127.0.0.1:9092; port 0: any)"
    )
    parser.add_argument("--data", metavar="DIR", help="data directory, made when missing (default ./tidelog-data)")
    parser.add_argument("--config", metavar="FILE", help="YAML file with settings (or TIDELOG_CONFIG)")
    parser.add_argument("--node-id", metavar="N", help="number of this node (default 1)")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="advertised address, if not the one listened on")
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz (default: none)"
    )
    parser.add_argument("--grpc", metavar="HOST:PORT", help="address for clients that speak gRPC (default: none)")
    parser.add_argument("--http", metavar="HOST:PORT", help="address for clients that speak HTTP (default: none)")
    parser.add_argument(
        "--join", metavar="HOST:PORT", help="join the cluster of this node, or of the first of several that answers"
    )
    parser.add_argument(
        "--nodes", type=int, metavar="N", help="run N nodes as one cluster, one per core: ports count up from --listen"
    )
    parser.add_argument("-o", dest="options", metavar="NAME=VALUE", action="append", default=[], help="any setting")
    parser.add_argument("--log-format", choices=("human", "json"), help="form of the log lines (default human)")
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (default info)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        loaded, unknown_variables = collect_settings(args, dict(os.environ))
        config = loaded.config
        if args.nodes is not None:
            return _run_nodes(args, loaded)
        configure(log_format=config.tidelog_log_format, level=config.tidelog_log_level)
        for variable in unknown_variables:
            logger.warning("environment variable is not a setting", variable=variable)
        _raise_open_files_limit()
        with asyncio.Runner(loop_factory=lambda: new_event_loop(config.tidelog_loop)) as runner:
            return runner.run(_serve(loaded))
    except (ConfigError, NodeStartError) as error:
        raise (RemovedError if REMOVED in str(error) else CommandError)(str(error)) from None


def _run_nodes(args: argparse.Namespace, loaded: LoadedConfig) -> int:
    """A node per core: processes of their own, watched by this one. What was given to it is given to each of them."""
    from tidelog.cli.cluster import run_local
    from tidelog.cli.node_arguments import NodeArguments

    if not 1 <= args.nodes <= NODES_MAX:
        raise CommandError(f"--nodes must be between 1 and {NODES_MAX}")
    if args.join:
        raise CommandError("--nodes and --join cannot be used together: start the nodes that join one by one")
    config = loaded.config
    [listener, *others] = config.bound_listeners
    if others:
        raise CommandError("--nodes takes one listener: nodes cannot share several")
    require_unshared(loaded)
    arguments = []
    for flag in ("config", "log_format", "log_level"):
        if getattr(args, flag):
            arguments += [f"--{flag.replace('_', '-')}", getattr(args, flag)]
    for option in args.options:
        arguments += ["-o", option]
    host = listener.host or "127.0.0.1"
    data = Path(config.data_directory)
    return run_local(
        args.nodes,
        data,
        host,
        listener.port,
        first_id=config.node_id,
        arguments=NodeArguments(arguments, {"http": args.http, "grpc": args.grpc}),
        log_format=config.tidelog_log_format,
    )


def require_unshared(loaded: LoadedConfig) -> None:
    """Several nodes of one command get the same settings, and none of them may be the address of one node."""
    for name, flag in _OF_ONE_NODE.items():
        place = loaded.places.get(name)
        if not place or place == flag or loaded.config.static_texts[name].endswith(":0"):
            continue
        way_out = "leave it out" if flag is None else f"give {flag}, whose ports count up"
        raise CommandError(
            f"{place}: several nodes cannot share {name}: {way_out}, or start each node by itself "
            "(`tidelog serve --join`)"
        )


def collect_settings(args: argparse.Namespace, environment: dict[str, str]) -> tuple[LoadedConfig, list[str]]:
    """The settings of file, environment, flags and options, and the variables that are none."""
    given: list[GivenSetting] = []
    file = args.config or environment.get("TIDELOG_CONFIG")
    if file:
        given += read_file(Path(file))
    from_environment, unknown_variables = read_environment(environment)
    given += from_environment
    for flag, name in _FLAGS.items():
        text = getattr(args, flag, None)
        if text is not None:
            given.append(GivenSetting(name, text, f"--{flag.replace('_', '-')}"))
    given += parse_options(args.options)
    return load_config(given), unknown_variables


async def _serve(loaded: LoadedConfig) -> int:
    from tidelog.node.node import Node

    stop_asked = asyncio.Event()
    _catch_signals(stop_asked)
    node = Node(loaded.config)
    starting = asyncio.create_task(node.start())
    stopping = asyncio.create_task(stop_asked.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # A start that is called off closes by itself what it had opened.
        starting.cancel()
        return await _end_in_time(starting)
    starting.result()
    Collector().start()
    _say_ready(node)
    unwanted = asyncio.create_task(node.stopped_by_cluster.wait())
    await asyncio.wait((stopping, unwanted), return_when=asyncio.FIRST_COMPLETED)
    unwanted.cancel()
    code = await _end_in_time(asyncio.create_task(node.stop()))
    if node.given_up is not None:
        raise NodeStartError(node.given_up)
    return code


def _say_ready(node: Node) -> None:
    took_ms = _process_age_seconds() * 1000
    config, stage = node.config, node.stage
    gateways = stage.site.doors.gateway_addresses if isinstance(stage, Loaded) else {}
    also_on = "".join(f"{name} on {address}, " for name, address in gateways.items())
    code = "compiled" if is_compiled() else "plain Python"
    line = ready_line(
        f"tidelog {__version__} node {config.node_id} ready on {node.address}, {also_on}data in "
        f"{config.data_directory}, {node.partition_count} partitions, {code}, {took_ms:.0f} ms",
        config.tidelog_log_format,
        version=__version__,
        node=config.node_id,
        address=node.address,
        **gateways,
        data=config.data_directory,
        partitions=node.partition_count,
        compiled=is_compiled(),
        took_ms=round(took_ms),
    )
    try:
        print(line, flush=True)
    except OSError:
        # Standard output is closed; the node runs on.
        logger.info("ready", address=node.address)


async def _end_in_time(ending: asyncio.Task[None]) -> int:
    await asyncio.wait((ending,), timeout=STOP_SECONDS_MAX)
    if not ending.done():
        logger.error("stop took too long; ending now", limit_seconds=STOP_SECONDS_MAX)
        _exit_now(1)
    if not ending.cancelled():
        ending.result()
    return 0


def _catch_signals(stop_asked: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop_asked.is_set():
            logger.warning("second signal; ending now", signal=signal.Signals(number).name)
            _exit_now(128 + number)
        logger.info("stopping", signal=signal.Signals(number).name)
        stop_asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def _exit_now(code: int) -> None:
    """Without waiting for threads that may hang in a system call."""
    sys.stderr.flush()
    os._exit(code)


def _raise_open_files_limit() -> None:
    """A node holds files per partition and a socket per client; the usual soft limit of 1,024 is not meant for it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            logger.info("limit on open files stays", limit=soft)


def _process_age_seconds() -> float:
    """Since the process was started, interpreter and imports included; since this module was imported where unknown."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.perf_counter() - _IMPORTED_SECONDS


_IMPORTED_SECONDS = time.perf_counter()

"""`python -m benchmarks.doors`: what a request costs at the other doors of a node, as ratios.

A door cannot cost less than its server library with an empty handler, nor less than what it asks of the log. So each is
measured beside both, in one run: the same load on an empty handler, on the Kafka door and on the door itself.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.servers.broker_process import free_port
from tests.servers.http import post
from tests.servers.tidelog_node import start_tidelog

from benchmarks.doors import grpc_door, http_door
from benchmarks.doors.processes import empty_server
from benchmarks.doors.requests import TOPIC, VALUE
from benchmarks.doors.rows import Round

DOORS = ("http", "grpc")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, one round")
    parser.add_argument("--door", choices=DOORS, action="append", help="only this one (default: all)")
    args = parser.parse_args()
    rounds, share = (1, 0.1) if args.quick else (args.rounds, 1.0)
    print("| figure | value | unit | target | |\n|---|--:|---|---|---|")
    missed = False
    for door in args.door or DOORS:
        with tempfile.TemporaryDirectory() as directory, _opened(door, Path(directory)) as measure:
            found = [measure(share) for _ in range(rounds)]
        for rows in zip(*found, strict=True):
            row = rows[0]._replace(value=statistics.median(each.value for each in rows))
            missed |= row.is_missed
            print(row.show(), flush=True)
    return int(missed and not args.quick)


@contextmanager
def _opened(door: str, directory: Path) -> Iterator[Round]:
    """A node with this door, and the server that does nothing beside it."""
    port = free_port()
    with (
        start_tidelog(directory, settings={f"{door}.listen": f"127.0.0.1:{port}"}) as node,
        empty_server(f"benchmarks.doors.{'empty_server' if door == 'http' else 'grpc_empty_server'}") as (pid, empty),
    ):
        if door == "http":
            assert post(port, f"/topics/{TOPIC}/partitions/0", VALUE).status == 200
            yield partial(http_door.measure, node, port, pid, empty)
        else:
            server = grpc_door.Server
            yield partial(grpc_door.measure, server(port, node.pid), server(empty, pid))


if __name__ == "__main__":
    raise SystemExit(main())

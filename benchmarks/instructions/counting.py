"""From the counts of a node to instructions per request."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.servers.wire import Connection

from benchmarks.checkouts import Checkout
from benchmarks.group_members import decoded, framed
from benchmarks.instructions.counted_node import CountedNode
from benchmarks.instructions.requests import CountedRequest
from benchmarks.progress import say

SETTLE_S = 0.2
"""A node may finish work after its last answer; it counts."""
MOMENT_S = 0.001
WARM_UP_SHARE = 0.3
"""Of a round, before it is counted: files are made with the first record, code is imported with the first request."""
TIMEOUT_S = 120.0


class Count(NamedTuple):
    per_request: float
    spread: float
    """How far the rounds lie apart, as a share of it."""


def summarise(rounds: Sequence[float]) -> Count:
    median = statistics.median(rounds)
    return Count(median, (max(rounds) - min(rounds)) / median)


def count_checkout(checkout: Checkout, requests: Sequence[CountedRequest], rounds: int) -> dict[str, Count]:
    """Instructions per request by the name of the request."""
    counts = {}
    for each in requests:
        counts[each.name] = count = summarise(list(_count(checkout, each, rounds)))
        say(f"{checkout.name}, {each.name}: {count.per_request:,.0f}, rounds within {count.spread:.2%}")
    return counts


def _count(checkout: Checkout, each: CountedRequest, rounds: int) -> Iterator[float]:
    """One value per round, all of one node: what others have left on it would be part of the count."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-count-") as directory,
        CountedNode(checkout, Path(directory)) as node,
        Connection(node.port, timeout_s=TIMEOUT_S) as connection,
    ):
        yield from _count_rounds(node, connection, each, rounds)


def _count_rounds(node: CountedNode, connection: Connection, each: CountedRequest, rounds: int) -> Iterator[float]:
    """One value per round."""
    make = each.prepare(connection)
    numbers = itertools.count()

    def count_some(count: int) -> float:
        taken = list(itertools.islice(numbers, count))
        requests = [make(number) for number in taken]
        frames = [framed(request) for request in requests]
        node.take_count()
        answers = _exchange(node, connection, frames)
        time.sleep(SETTLE_S)
        instructions = node.take_count()
        for request, answer in zip(requests, answers, strict=True):
            response = decoded(request, answer)
            assert each.check(response), f"{each.name} was answered with {response}"
        if each.undo is not None:
            _exchange(node, connection, [framed(each.undo(number)) for number in taken])
        return instructions / count

    count_some(int(each.per_round * WARM_UP_SHARE))
    for _ in range(rounds):
        yield count_some(each.per_round)


def _exchange(node: CountedNode, connection: Connection, frames: Sequence[bytes]) -> list[bytes]:
    """One request at a time, to a node that waits for it. None comes in the millisecond of the one before: what a node
    has made for one moment it uses for all that comes in it."""
    answers = []
    for frame in frames:
        node.wait_until_asleep()
        time.sleep(MOMENT_S)
        connection.send_bytes(frame)
        answers.append(connection.receive_frame())
    return answers

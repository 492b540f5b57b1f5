"""Members of groups that are processes of their own and print what happens to them, as Kafka's VerifiableConsumer."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.servers.topics import list_offset, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until

SETTLE_S = 60


class MemberProcess:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.owned: set[int] = set()
        self.read: list[tuple[int, int]] = []
        """Partition and offset of every record."""
        self._events: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=listen, daemon=True) for listen in (self._follow, self._follow_errors)]
        for thread in self._threads:
            thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._learn(json.loads(line))

    def _learn(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        partitions = {place["partition"] for place in event.get("partitions") or ()}
        match event["name"]:
            case "partitions_assigned":
                self.owned = self.owned | partitions
            case "partitions_revoked" | "partitions_lost":
                self.owned = self.owned - partitions
            case "record_data":
                self.read.append((event["partition"], event["offset"]))

    def _follow_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._errors.extend(lines)

    def told(self) -> str:
        return f"{self._process.args}: {self._events[-20:]} {''.join(self._errors[-20:])}"

    def leave(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._end(30)
        assert self._events[-1]["name"] == "shutdown_complete", self.told()

    def kill(self) -> None:
        self._process.kill()
        self._end(10)

    def _end(self, timeout_s: float) -> None:
        self._process.wait(timeout_s)
        for thread in self._threads:
            thread.join(10)


def share_and_leave(connection: Connection, topic: str, partitions: int, start: Callable[[], MemberProcess]) -> None:
    """Two members share a topic, and one goes on alone: every partition has one reader, every record is read once."""
    everything = set(range(partitions))
    first, second = members = start(), start()

    def until(condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, what, SETTLE_S, interval_s=0.05)
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *(member.told() for member in members)])) from None

    def is_shared() -> bool:
        return min(len(first.owned), len(second.owned)) > 0 and sorted([*first.owned, *second.owned]) == sorted(
            everything
        )

    def write_and_read() -> None:
        for partition in everything:
            produce_values(connection, topic, b"a", b"b", b"c", partition=partition)
        written = [(p, offset) for p in everything for offset in range(list_offset(connection, topic, p, -1)[2])]
        until(lambda: len(first.read) + len(second.read) >= len(written), "all records are read")
        assert sorted(first.read + second.read) == sorted(written)

    try:
        until(is_shared, "two members share")
        write_and_read()
        second.leave()
        until(lambda: first.owned == everything, "one member reads all")
        write_and_read()
        first.leave()
    finally:
        for member in members:
            member.kill()

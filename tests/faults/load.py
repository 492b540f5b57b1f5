"""A producer that goes on through crashes, and the check of what it was promised.

Every record carries its number. A delivery report is the broker's promise; what was promised must be in the log at
the promised offset, whatever happened since.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer
from tests.servers.topics import fetch_request
from tests.servers.wire import Connection

from tidelog.records.batch import iterate_headers
from tidelog.records.record import iterate_records


class SteadyLoad(threading.Thread):
    """Writes numbered records to one partition until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool, pause_s: float = 0.0002) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        """Number -> offset."""
        self.failed: list[tuple[int, str]] = []
        self.sent = 0
        self._pause_s = pause_s
        self._stop_asked = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": idempotent,
                "max.in.flight.requests.per.connection": 5 if idempotent else 1,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._stop_asked.is_set():
            if len(self._producer) < 2000:
                number = self.sent
                self.sent += 1
                value = b"%d " % number + b"x" * (number % 400)
                self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered(number))
            self._producer.poll(0)
            time.sleep(self._pause_s)

    def _delivered(self, number: int) -> Any:
        def report(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged[number] = message.offset()
            else:
                self.failed.append((number, str(error)))

        return report

    def stop(self, flush: bool = True) -> None:
        self._stop_asked.set()
        self.join(30)
        assert not self.is_alive()
        if flush:
            assert self._producer.flush(60) == 0
        else:
            self._producer.purge(in_queue=True, in_flight=True)
            self._producer.flush(5)


def read_log(port: int, topic: str, start_offset: int = 0) -> dict[int, bytes]:
    """Every record of partition 0: offset -> value."""
    found: dict[int, bytes] = {}
    offset = start_offset
    with Connection(port) as connection:
        while True:
            request = fetch_request(topic, offset, max_wait_ms=0, max_bytes=8 << 20)
            request.min_bytes = 0
            [answer] = connection.call(request, 11).responses[0].partitions
            assert answer.error_code == 0, answer.error_code
            data = bytes(answer.records or b"")
            if not data:
                assert offset == answer.high_watermark, f"read to {offset} of {answer.high_watermark}"
                return found
            for base, value in _values(data):
                if base >= offset:
                    found[base] = value
            offset = max(found) + 1


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position, header in iterate_headers(data):
        if position + header.size_in_bytes > len(data):
            return
        for record in iterate_records(data[position : position + header.size_in_bytes]):
            yield record.offset, record.value or b""


def number_of(value: bytes) -> int:
    return int(value.split(b" ", 1)[0])


def check_promises(load: SteadyLoad, log: dict[int, bytes], *, once: bool) -> None:
    """Everything acknowledged is in the log at its offset; an idempotent producer's records in order and once."""
    assert sorted(log) == list(range(len(log))), "offsets have gaps"
    numbers = [number_of(log[offset]) for offset in sorted(log)]
    missing = set(load.acknowledged) - set(numbers)
    assert not missing, f"{len(missing)} acknowledged records are lost, first {min(missing)}"
    if once:
        assert numbers == sorted(set(numbers)), "records are twice in the log or out of order"
    else:
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == sorted(first_seen), "records are out of order"
    wrong = {
        number: offset
        for number, offset in load.acknowledged.items()
        if offset >= 0 and number_of(log[offset]) != number
    }
    assert not wrong, f"{len(wrong)} records are not at the offset that was promised: {list(wrong.items())[:5]}"

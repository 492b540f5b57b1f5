"""A broker that is attacked, and a bystander: another client that must be served all the while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.target import start_target
from tests.servers.topics import create_topic, fetch_bytes, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own for each module, so that memory is that of its attacks only."""
    with start_target(tmp_path_factory.mktemp("victim")) as broker:
        yield broker
        assert broker.alive(), f"the broker ended: {broker.log_text()[-2000:]}"


class Bystander(threading.Thread):
    """Writes and reads one record after another on its own connection until it is stopped."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.connection = Connection(port, timeout_s=60)
        self.topic = create_topic(self.connection, "bystander")
        self.served = 0
        self.failure: BaseException | None = None
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                value = b"bystander %d" % self.served
                offset = produce_values(self.connection, self.topic, value)
                assert offset == self.served
                assert fetch_bytes(self.connection, self.topic, offset).endswith(value + b"\0")
                self.served += 1
        except BaseException as error:
            self.failure = error

    def finish(self) -> None:
        """Fails when any single request failed or took too long, or when records are missing."""
        self._stop_asked.set()
        self.join(90)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive()
        assert self.served > 0
        data = fetch_bytes(self.connection, self.topic, 0)
        assert b"bystander 0\0" in data
        self.connection.close()


def serve_for(bystander: Bystander, seconds: float) -> None:
    """The bystander makes progress during this time."""
    before = bystander.served
    time.sleep(seconds)
    wait_until(lambda: bystander.failure is not None or bystander.served > before + 5, "the bystander is served")
    assert bystander.failure is None, bystander.failure


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def bystander(victim: BrokerProcess) -> Iterator[Bystander]:
    """Runs during the test and is checked at its end."""
    client = Bystander(victim.port)
    client.start()
    yield client
    client.finish()


@pytest.fixture
def bounded_memory(victim: BrokerProcess) -> Iterator[None]:
    """What an attack may cost at its peak, whatever it claims or sends."""
    victim.reset_rss_peak()
    before = victim.rss_bytes()
    yield
    grown = victim.rss_peak_bytes() - before
    limit = 700 * MEBIBYTE
    assert grown < limit or victim.kind == "kafka", f"{grown / MEBIBYTE:.0f} MiB more than before"

"""The simulated machine itself: what a disk keeps, what a connection promises, what a process is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.simulation.clock import DriftingClock
from tests.simulation.cluster.files import SyncedFiles
from tests.simulation.cluster.loop import VirtualLoop
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.sockets import PORT_BASE, Acceptor, Sockets
from tests.simulation.disk import DiskFaults
from tests.simulation.event_loop import running_loop
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.world import World

from tidelog.runtime.disk import Disk
from tidelog.storage.files import write_whole

ROUNDS = 50
SERVER, CLIENT = 1, 2


class Machine:
    def __init__(self, faults: NetworkFaults) -> None:
        self.world = World(1)
        self.network = Network(self.world, faults)
        self.sockets = Sockets(self.world, self.network, lambda _: True)
        self.loop = VirtualLoop(self.world)
        self.clock = DriftingClock(self.world, 0.1)

    def process(self, host: int) -> Process:
        return Process(self.world, host, self.clock)


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine(NetworkFaults(loss=0.2, duplication=0.2, straggler=0.1))
    with running_loop(machine.loop):
        yield machine
        machine.loop.abandon()


class Collecting(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.received = b""
        self.is_lost = False
        self._buffer = bytearray(7)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Server:
    """Takes connections in a process of its own; the first is the client's, others are of doubled requests."""

    def __init__(self, machine: Machine) -> None:
        self.process = machine.process(SERVER)
        self.connections: list[Collecting] = []
        acceptor = Acceptor(machine.sockets, self.process, self._accept)
        acceptor._port = PORT_BASE + SERVER
        acceptor.start()

    def _accept(self, _socket: None) -> Collecting:
        self.connections.append(Collecting())
        return self.connections[-1]


# -- disks -------------------------------------------------------------------------------------------------------------


def append(path: Path, data: bytes) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, data)
    return fd


def test_a_log_keeps_what_was_synced_and_some_of_the_rest(tmp_path: Path) -> None:
    world, lengths = World(1), set()
    for round_ in range(ROUNDS):
        files = SyncedFiles(world, tmp_path / str(round_), DiskFaults())
        fd = append(files.directory / "a.log", b"synced")
        files.synced(fd)
        os.write(fd, b"+lost?")
        files.crash(loses_power=True)
        content = (files.directory / "a.log").read_bytes()
        assert b"synced+lost?".startswith(content)
        lengths.add(len(content))
    assert min(lengths) == len("synced")
    assert max(lengths) > len("synced")


def test_a_crash_keeps_everything_and_what_was_synced_stays_synced(tmp_path: Path) -> None:
    files = SyncedFiles(World(1), tmp_path, DiskFaults())
    fd = append(files.directory / "a.log", b"synced")
    files.synced(fd)
    os.write(fd, b"+more")
    files.crash(loses_power=False)
    assert (files.directory / "a.log").read_bytes() == b"synced+more"
    files.crash(loses_power=True)
    assert (files.directory / "a.log").read_bytes().startswith(b"synced")


def test_a_sync_that_began_earlier_takes_nothing_back(tmp_path: Path) -> None:
    files = SyncedFiles(World(1), tmp_path, DiskFaults())
    fd = append(files.directory / "a.log", b"one")
    with files.syncing() as slow:
        files.synced(fd)
    os.write(fd, b"+two")
    files.synced(fd)
    slow.finish()
    files.crash(loses_power=True)
    assert (files.directory / "a.log").read_bytes() == b"one+two"


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_that_is_replaced_is_the_old_or_the_new_one_until_it_is_synced(tmp_path: Path, sync: bool) -> None:
    world, found = World(1), set()
    for round_ in range(ROUNDS):
        files = SyncedFiles(world, tmp_path / str(round_), DiskFaults())
        disk = Disk(fsync=files.synced)
        write_whole(str(files.directory / "state"), b"old", sync=True, disk=disk)
        write_whole(str(files.directory / "state"), b"new", sync=sync, disk=disk)
        files.crash(loses_power=True)
        found.add((files.directory / "state").read_bytes())
    assert found == ({b"new"} if sync else {b"old", b"new"})


def test_a_full_disk_takes_what_it_has_room_for_and_then_nothing(tmp_path: Path) -> None:
    files = SyncedFiles(World(1), tmp_path, DiskFaults())
    assert files.take_room(1 << 20) == 1 << 20
    files.room_bytes = 5
    assert files.take_room(3) == 3
    assert files.take_room(3) == 2
    with pytest.raises(OSError, match="No space left"):
        files.take_room(1)
    files.give_room(4)
    assert files.take_room(9) == 4


# -- connections and processes -----------------------------------------------------------------------------------------


def test_a_connection_keeps_the_order_of_what_is_written(machine: Machine) -> None:
    server, client = Server(machine), machine.process(CLIENT)
    sent = [b"%d," % number for number in range(40)]

    async def write() -> None:
        transport, _ = await machine.sockets.connect(client, Collecting, PORT_BASE + SERVER)
        for data in sent:
            transport.write(data)

    client.run(write)
    machine.world.run_for(20_000.0)
    assert server.connections[0].received == b"".join(sent)
    doubled = [connection.received for connection in server.connections[1:]]
    assert doubled
    assert set(doubled) <= set(sent)


def test_what_must_not_come_again_does_not(machine: Machine) -> None:
    server, client = Server(machine), machine.process(CLIENT)
    client.is_repeated = False

    async def write() -> None:
        transport, _ = await machine.sockets.connect(client, Collecting, PORT_BASE + SERVER)
        for number in range(40):
            transport.write(b"%d," % number)

    client.run(write)
    machine.world.run_for(20_000.0)
    assert len(server.connections) == 1


def test_peers_of_a_process_that_dies_hear_of_it_but_not_of_a_loss_of_power(machine: Machine) -> None:
    server = Server(machine)
    machine.network.calm()
    ends = []
    for host, tells_peers in ((CLIENT, True), (CLIENT + 1, False)):
        client = machine.process(host)

        async def connect(client: Process = client) -> None:
            await machine.sockets.connect(client, Collecting, PORT_BASE + SERVER)

        client.run(connect)
        machine.world.run_for(100.0)
        client.kill(tells_peers=tells_peers)
        machine.world.run_for(100.0)
        ends.append(server.connections[-1].is_lost)
    assert ends == [True, False]


def test_what_comes_while_a_process_is_stopped_happens_afterwards_in_order(machine: Machine) -> None:
    process = machine.process(CLIENT)
    happened: list[tuple[int, float]] = []

    async def tick(number: int) -> None:
        await asyncio.sleep(0.01 * number)
        happened.append((number, machine.world.now_ms))

    for number in range(1, 5):
        process.run(lambda number=number: tick(number))
    machine.world.run_for(15.0)
    process.stop_for(100.0)
    machine.world.run_for(50.0)
    process.stop_for(200.0)
    machine.world.run_for(400.0)
    assert [number for number, _ in happened] == [1, 2, 3, 4]
    assert happened[0][1] < 15.0
    assert all(265.0 <= when_ms < 280.0 for _, when_ms in happened[1:])


def test_nothing_of_a_dead_process_happens(machine: Machine) -> None:
    process = machine.process(CLIENT)
    happened = []

    async def live() -> None:
        try:
            await asyncio.sleep(0.05)
        finally:
            happened.append("after death")

    process.run(live)
    machine.world.run_for(10.0)
    process.kill(tells_peers=True)
    machine.world.run_for(100.0)
    assert not happened

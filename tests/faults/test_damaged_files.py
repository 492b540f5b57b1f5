"""What a crash of the machine may leave behind: torn and blank tails, missing and damaged indexes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.conftest import Node
from tests.faults.load import read_log
from tests.servers.topics import create_topic, list_offset, produce_values
from tests.servers.wire import Connection

COUNT = 400
Damage = Callable[[Path], None]


def append(data: bytes) -> Damage:
    def damage(path: Path) -> None:
        with path.open("ab") as file:
            file.write(data)

    return damage


def torn_copy_of_the_last_bytes(path: Path) -> None:
    """The beginning of a batch that looks right and ends too early."""
    content = path.read_bytes()
    append(content[:200])(path)


def overwrite(data: bytes) -> Damage:
    return lambda path: path.write_bytes(data) and None


def remove(path: Path) -> None:
    path.unlink()


def fill(node: Node) -> str:
    """Some records in several batches, then a kill."""
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "damaged", configs={"index.interval.bytes": "300"})
        for number in range(0, COUNT, 10):
            produce_values(connection, topic, *[b"%d" % (number + index) for index in range(10)])
    node.kill()
    return topic


def check_whole(node: Node, topic: str) -> None:
    """All records are there, offsets by time are found, and the next record gets the next offset."""
    node.start()
    assert [int(value) for _, value in sorted(read_log(node.port, topic).items())] == list(range(COUNT))
    with Connection(node.port) as connection:
        assert list_offset(connection, topic, 0, -1)[2] == COUNT
        assert list_offset(connection, topic, 0, 0)[2] == 0
        assert produce_values(connection, topic, b"next") == COUNT
    assert read_log(node.port, topic, COUNT) == {COUNT: b"next"}


@pytest.mark.parametrize(
    "damage",
    [
        append(b"\0" * 5000),
        append(b"\xff" * 5000),
        append(random.Random(5).randbytes(3000)),
        append(b"\0" * 7),
        append(b"\0\0\0\0\0\0\x01\x90\x7f\xff\xff\xff" + b"\0" * 100),
        torn_copy_of_the_last_bytes,
    ],
    ids=["blank", "ones", "random", "a few blank bytes", "a huge length", "a torn batch"],
)
def test_a_tail_that_is_no_batch_is_cut(node: Node, damage: Damage) -> None:
    topic = fill(node)
    [path] = node.segment_files(topic, ".log")
    size = path.stat().st_size
    damage(path)
    check_whole(node, topic)
    assert path.stat().st_size < size + 200


def test_a_torn_last_batch_is_cut_and_the_rest_stays(node: Node) -> None:
    topic = fill(node)
    [path] = node.segment_files(topic, ".log")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 15)
    node.start()
    assert [int(value) for _, value in sorted(read_log(node.port, topic).items())] == list(range(COUNT - 10))
    with Connection(node.port) as connection:
        assert produce_values(connection, topic, b"again") == COUNT - 10


@pytest.mark.parametrize("suffix", [".index", ".timeindex", "leader-epoch-checkpoint", ".snapshot"])
@pytest.mark.parametrize(
    "damage",
    [remove, overwrite(b""), overwrite(b"\xff" * 800), overwrite(b"\0" * 803), append(b"garbage")],
    ids=["removed", "empty", "ones", "blank", "garbage behind"],
)
def test_files_beside_the_log_are_made_again(node: Node, suffix: str, damage: Damage) -> None:
    topic = fill(node)
    for path in node.segment_files(topic, suffix):
        damage(path)
    check_whole(node, topic)


def test_all_files_beside_the_logs_may_go(node: Node) -> None:
    topic = fill(node)
    for path in node.segment_files(topic, ""):
        if path.is_file() and path.suffix != ".log" and path.name != "partition.metadata":
            path.unlink()
    for path in node.data.glob("*-checkpoint"):
        path.unlink()
    check_whole(node, topic)


def test_a_damaged_clean_shutdown_is_only_believed_when_it_is_there(node: Node) -> None:
    """After a clean stop and a later crash, the marker of the clean stop must be gone."""
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "marker")
        produce_values(connection, topic, *[b"%d" % number for number in range(COUNT)])
    node.running.stop()
    node.start()
    node.kill()
    [path] = node.segment_files(topic, ".log")
    append(b"\0" * 300)(path)
    check_whole(node, topic)

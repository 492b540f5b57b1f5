"""A disk without room: writes get an error that clients retry, reads go on, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.conftest import Node
from tests.faults.load import read_log
from tests.servers.topics import create_topic, fetch_bytes, produce_batch
from tests.servers.wire import Connection, NewRecord, build_batch
from tests.waiting import wait_until

from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState

KAFKA_STORAGE_ERROR = 56
SIZE_MIB = 24


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """The data directory on a file system of its own, with a file that can be removed to make room."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    node.data.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(node.data)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not allow mounts")
    ballast = node.data / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    yield ballast
    if node.broker is not None and node.broker.alive():
        node.broker.kill()
    subprocess.run(["umount", str(node.data)], check=True)


def write_until_full(connection: Connection, topic: str) -> int:
    """Returns the number of acknowledged records."""
    written = 0
    while written < 10_000:
        answer = produce_batch(connection, topic, build_batch([NewRecord(b"%d " % written + b"x" * 100_000)]))
        if answer.error_code != 0:
            assert answer.error_code == KAFKA_STORAGE_ERROR
            return written
        assert answer.base_offset == written
        written += 1
    raise AssertionError("the disk never became full")


def fill_the_rest(path: Path) -> None:
    """Not a byte is left after this."""
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(1024)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def test_writes_fail_reads_go_on_and_writes_come_back(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "full")
        written = write_until_full(connection, topic)
        assert written > 20
        for _ in range(3):
            small = produce_batch(connection, topic, build_batch([NewRecord(b"x" * 100_000)]))
            assert small.error_code == KAFKA_STORAGE_ERROR
        said = [line for line in node.running.log_text().splitlines() if "a write failed" in line]
        assert 1 <= len(said) <= 3, "the operator reads why, and not once for every record"
        assert "No space left on device" in said[0]
        assert b"0 xxx" in fetch_bytes(connection, topic, 0)
        assert len(read_log(node.port, topic)) == written

        small_disk.unlink()
        wait_until(
            lambda: produce_batch(connection, topic, build_batch([NewRecord(b"%d back" % written)])).error_code == 0,
            "writes go on when there is room again",
        )
    log = read_log(node.port, topic)
    assert [int(value.split()[0]) for _, value in sorted(log.items())] == list(range(written + 1))
    node.running.stop()
    node.start()
    assert read_log(node.port, topic) == log


def test_a_kill_on_a_full_disk_loses_nothing(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "full")
        written = write_until_full(connection, topic)
    node.kill()
    small_disk.unlink()
    node.start()
    assert [int(value.split()[0]) for _, value in sorted(read_log(node.port, topic).items())] == list(range(written))


def test_topics_cannot_be_made_on_a_full_disk_but_the_node_lives(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "full")
        written = write_until_full(connection, topic)
        fill_the_rest(node.data / "filler")
        wanted = CreatableTopic(name="no-room", num_partitions=50, replication_factor=1)
        [result] = connection.call(CreateTopicsRequest(topics=[wanted]), 7).topics
        assert result.error_code == KAFKA_STORAGE_ERROR
        assert len(read_log(node.port, topic)) == written
    small_disk.unlink()
    with Connection(node.port) as connection:
        create_topic(connection, "room-again")


def wait_for_room(connection: Connection, topic: str) -> None:
    large = build_batch([NewRecord(b"x" * 100_000)])
    wait_until(lambda: produce_batch(connection, topic, large).error_code == 0, "there is room again")


def delete_topic(connection: Connection, topic: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    return int(connection.call(request, 6).responses[0].error_code)


def test_a_node_starts_on_a_full_disk_and_a_topic_can_be_deleted_to_make_room(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        kept, doomed = create_topic(connection, "kept"), create_topic(connection, "doomed")
        assert produce_batch(connection, kept, build_batch([NewRecord(b"precious")])).error_code == 0
        write_until_full(connection, doomed)
        fill_the_rest(node.data / "filler")
        # Full to the last byte, and what is kept for this was taken for the start that follows.
    node.kill()
    node.start()
    assert list(read_log(node.port, kept).values()) == [b"precious"]
    with Connection(node.port) as connection:
        assert delete_topic(connection, doomed) == 0
        wait_for_room(connection, kept)


def test_a_topic_can_be_deleted_when_not_a_byte_is_left(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        kept, doomed = create_topic(connection, "kept"), create_topic(connection, "doomed")
        write_until_full(connection, doomed)
        fill_the_rest(node.data / "filler")
        assert delete_topic(connection, doomed) == 0
        wait_for_room(connection, kept)


def test_records_can_be_deleted_when_not_a_byte_is_left(node: Node, small_disk: Path) -> None:
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "full")
        written = write_until_full(connection, topic)
        fill_the_rest(node.data / "filler")
        partition = DeleteRecordsPartition(partition_index=0, offset=-1)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000
        )

        def delete_all() -> bool:
            answer = connection.call(request, 2).topics[0].partitions[0]
            assert answer.error_code in (0, KAFKA_STORAGE_ERROR)
            return bool(answer.low_watermark == written)

        wait_until(delete_all, "what is deleted makes room for saying so")
        wait_for_room(connection, topic)


def test_a_start_without_room_is_one_line(node: Node, small_disk: Path) -> None:
    node.start()
    node.kill()
    (node.data / "tidelog-reserve").unlink()
    filler = node.data / "filler"
    fill_the_rest(filler)
    for left_bytes in (0, 64 * 1024):
        os.truncate(filler, filler.stat().st_size - left_bytes)
        command = [sys.executable, "-m", "tidelog.cli.main", "serve", "--listen", f"127.0.0.1:{node.port}"]
        command += ["--data", str(node.data)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
        assert ended.returncode == 1
        line = ended.stderr.strip().splitlines()[-1]
        assert "No space left" in line or "no room left" in line
        assert "Traceback" not in ended.stderr
        assert "TIDELOG_DEBUG" not in ended.stderr

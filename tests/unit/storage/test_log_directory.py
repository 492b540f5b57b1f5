"""The data directory: which process may use it, what a stop leaves behind, and names that must not escape."""

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.storage.faulty_disk import FaultyDisk
from tests.unit.storage.partition_log import NOW, append, config, visible

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.runtime.disk import DISK, Disk
from tidelog.runtime.system import System
from tidelog.storage import log_flusher
from tidelog.storage.checkpoints import decode_offsets, read_offsets
from tidelog.storage.leftovers import remove_all
from tidelog.storage.log_directory import LogDirectory, parse_directory_name
from tidelog.storage.log_directory_identity import DirectoryLock, DirectoryRefused

A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
DASHED = TopicPartition("with-dash.and_dot", 12)


def open_directory(path: Path, *, node_id: int = 1, cluster_id: str | None = None, disk: Disk = DISK) -> LogDirectory:
    return LogDirectory.open(path, node_id=node_id, cluster_id=cluster_id, system=System(lambda: NOW, disk=disk))


def test_a_new_directory_is_claimed(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "deep" / "data", node_id=7)
    meta = (tmp_path / "deep" / "data" / "meta.properties").read_text()
    assert f"cluster.id={directory.cluster_id}\n" in meta
    assert f"directory.id={directory.directory_id}\n" in meta
    assert "node.id=7\n" in meta
    assert "version=1\n" in meta
    assert len(directory.cluster_id) == 22
    directory.close()
    again = open_directory(tmp_path / "deep" / "data", node_id=7, cluster_id=directory.cluster_id)
    assert (again.cluster_id, again.directory_id) == (directory.cluster_id, directory.directory_id)
    again.close()


def test_meta_properties_of_kafka_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Mon Nov 16 11:00:00 UTC 2026\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
        "directory.id=pBAtrSxX6SIAQS4jCEVEBg\nnode.id=3\nversion=1\n"
    )
    directory = open_directory(tmp_path, node_id=3)
    assert directory.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    directory.close()


def test_another_node_or_cluster_is_refused_and_the_lock_let_go(tmp_path: Path) -> None:
    open_directory(tmp_path, node_id=1, cluster_id="one").close()
    with pytest.raises(DirectoryRefused, match="belongs to node 1, not to node 2"):
        open_directory(tmp_path, node_id=2)
    with pytest.raises(DirectoryRefused, match="belongs to cluster one, not to cluster two"):
        open_directory(tmp_path, node_id=1, cluster_id="two")
    open_directory(tmp_path, node_id=1, cluster_id="one").close()


@pytest.mark.parametrize("meta", ["version=0\nbroker.id=1\n", "version=1\nnode.id=x\ncluster.id=a\n", "version=1\n"])
def test_a_damaged_identity_is_refused(tmp_path: Path, meta: str) -> None:
    (tmp_path / "meta.properties").write_text(meta)
    with pytest.raises(DirectoryRefused) as caught:
        open_directory(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_second_user_in_this_process_is_refused(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    with pytest.raises(DirectoryRefused, match=f"in use by process {os.getpid()}"):
        open_directory(tmp_path)
    directory.close()
    open_directory(tmp_path).close()


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(tmp_path: Path) -> None:
    """What makes room comes after it."""
    open_directory(tmp_path).close()

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    full = FaultyDisk()
    full.pwrite = refuse
    lock = DirectoryLock(str(tmp_path), full.disk)
    with pytest.raises(DirectoryRefused, match="in use by another process"):
        DirectoryLock(str(tmp_path), full.disk)
    lock.release()


def test_another_process_is_refused_until_this_one_is_gone(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from tidelog.storage.log_directory import LogDirectory;"
        "d = LogDirectory.open(pathlib.Path(sys.argv[1]), node_id=1, cluster_id=None);"
        "print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(DirectoryRefused, match=f"in use by process {holder.pid}"):
            open_directory(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    open_directory(tmp_path).close()


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DirectoryRefused, match="cannot be made"):
            open_directory(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DirectoryRefused, match="cannot be written"):
            open_directory(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_clean_stop_leaves_checkpoints_and_a_marker(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    assert not directory.clean_shutdown
    log = directory.open_log(A0, config(), topic_id=bytes(range(16)))
    assert directory.open_log(A0, config(), topic_id=bytes(range(16))) is log
    directory.open_log(DASHED, config(), topic_id=None)
    append(log, [(b"k", b"v")] * 5)
    log.rearranger.delete_records_before(2)
    directory.cleaner_offsets[A0] = 3
    directory.write_cleaner_offsets()
    directory.close(broker_epoch=42, high_watermarks={A0: 5, DASHED: 0})
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 42}
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\na 0 5\nwith-dash.and_dot 12 0\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na 0 2\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\na 0 5\nwith-dash.and_dot 12 0\n"

    again = open_directory(tmp_path)
    assert (again.clean_shutdown, again.last_broker_epoch) == (True, 42)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (again.high_watermarks[A0], again.cleaner_offsets) == (5, {A0: 3})
    assert again.list_partitions() == [A0, DASHED]
    log = again.open_log(A0, config(), topic_id=bytes(range(16)))
    assert not log.was_recovered
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 5, 5)
    assert [record.offset for record in visible(log)] == [2, 3, 4]
    again.close()


def record_syncs(disk: FaultyDisk, failing: str = "") -> Counter[str]:
    """How often each file and directory was synced; one whose path has `failing` in it cannot be."""
    synced: Counter[str] = Counter()

    def sync(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        synced[path] += 1
        if failing and failing in path:
            raise OSError(errno.EIO, "the disk is gone")

    disk.fdatasync = disk.fsync = sync
    return synced


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_stop_syncs_every_log_and_their_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_flusher, "LOGS_AT_A_TIME", 100)
    disk = FaultyDisk()
    directory = open_directory(tmp_path, disk=disk.disk)
    partitions = [TopicPartition("many", index) for index in range(100)]
    for partition in partitions:
        append(directory.open_log(partition, config(), topic_id=None), [(b"k", b"v")])
    synced = record_syncs(disk)
    log_flusher.flush_together(list(directory.logs.values()), disk.disk)
    expected = {str(tmp_path): 1}
    for partition in partitions:
        expected[str(tmp_path / str(partition))] = 1
        expected[str(tmp_path / str(partition) / "00000000000000000000.log")] = 1
    assert synced == expected
    assert all(log.recovery_point == 1 for log in directory.logs.values())
    directory.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_log_that_cannot_be_synced_is_tried_once_and_leaves_no_marker(tmp_path: Path) -> None:
    disk = FaultyDisk()
    directory = open_directory(tmp_path, disk=disk.disk)
    for partition in (A0, A1):
        append(directory.open_log(partition, config(), topic_id=None), [(b"k", b"v")])
    synced = record_syncs(disk, failing="a-0/")
    directory.close()
    assert synced[str(tmp_path / "a-0" / "00000000000000000000.log")] == 1, "the kernel may claim success next time"
    assert synced[str(tmp_path / "a-1" / "00000000000000000000.log")] == 1
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_after_a_crash_logs_are_recovered(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log(A0, config(), topic_id=None)
    append(log, [(b"k", b"v")] * 5)
    directory.close(clean=False)
    with (tmp_path / "a-0" / "00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    again = open_directory(tmp_path)
    assert not again.clean_shutdown
    log = again.open_log(A0, config(), topic_id=None)
    assert log.was_recovered
    assert log.log_end_offset == 5
    again.close()


def test_a_log_closed_and_opened_again_keeps_its_place(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    append(directory.open_log(A0, config(), topic_id=None), [(b"k", b"v")] * 3)
    directory.close_log(A0)
    assert directory.logs == {}
    log = directory.open_log(A0, config(), topic_id=None)
    assert not log.was_recovered
    assert log.log_end_offset == 3
    directory.close()


def test_a_deleted_log_is_gone_for_good(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log(A0, config(file_delete_delay_ms=0), topic_id=None)
    append(log, [(b"k", b"v" * 100)] * 3)
    region = log.reader.read(0, 1000, upper_offset=3, min_one_batch=True)
    directory.open_log(A1, config(file_delete_delay_ms=0), topic_id=None)
    directory.delete_log(A0)
    assert directory.list_partitions() == [A1]
    (renamed,) = tmp_path.glob("a-0.*-delete")
    assert len(renamed.name) == len("a-0.") + 32 + len("-delete")
    assert len(region.load()) == region.size
    # Made again under the same name, it begins empty.
    assert directory.open_log(A0, config(file_delete_delay_ms=0), topic_id=None).log_end_offset == 0
    assert remove_all(directory.take_leftovers()) == 1
    assert not renamed.exists()
    directory.close()


def test_what_a_crash_left_half_deleted_is_removed(tmp_path: Path) -> None:
    open_directory(tmp_path).close()
    leftover = tmp_path / ("x-0." + "0" * 32 + "-delete")
    (leftover / "sub").mkdir(parents=True)
    (tmp_path / "not-a-log-delete").mkdir()
    directory = open_directory(tmp_path)
    assert remove_all(directory.take_leftovers()) == 1
    assert not leftover.exists()
    assert (tmp_path / "not-a-log-delete").exists()
    directory.close()


def test_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    longest = TopicPartition("t" * 249, 0)
    directory.open_log(longest, config(file_delete_delay_ms=0), topic_id=None)
    directory.delete_log(longest)
    assert remove_all(directory.take_leftovers()) == 1
    directory.close()


@pytest.mark.parametrize("topic", ["", ".", "..", "../x", "a/b", "/etc", "a\x00b", "t" * 250, "ünicode", "a b", "a\n"])
def test_names_cannot_escape(tmp_path: Path, topic: str) -> None:
    directory = open_directory(tmp_path / "data")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for act in (
        lambda: directory.open_log(TopicPartition(topic, 0), config(), topic_id=None),
        lambda: directory.delete_log(TopicPartition(topic, 0)),
    ):
        with pytest.raises(BrokerError) as caught:
            act()
        assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(BrokerError):
        directory.open_log(TopicPartition("good", -1), config(), topic_id=None)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    directory.close()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", A0),
        ("with-dash.and_dot-12", DASHED),
        ("a", None),
        ("-0", None),
        ("a-", None),
        ("a-01", None),
        ("a-x", None),
        ("a-٣", None),
        ("a-0." + "0" * 32 + "-delete", None),
    ],
)
def test_directory_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\nx\n", "0\n1\na b c\n"])
def test_a_damaged_checkpoint_counts_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "checkpoint").write_text(content)
    assert read_offsets(str(tmp_path / "checkpoint")) == {}
    with pytest.raises(ValueError):
        decode_offsets(content.encode())


def test_a_thousand_logs_open_quickly_after_a_clean_stop(tmp_path: Path) -> None:
    """Counted in files opened, since time depends on the machine."""
    directory = open_directory(tmp_path)
    partitions = [TopicPartition("many", index) for index in range(200)]
    for partition in partitions:
        append(directory.open_log(partition, config(), topic_id=None), [(b"k", b"v")])
    directory.close()
    again = open_directory(tmp_path)
    opened: list[str] = []

    def watch(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and str(args[0]).startswith(str(tmp_path)):
            opened.append(str(args[0]))

    sys.addaudithook(watch)
    logs = [again.open_log(partition, config(), topic_id=None) for partition in partitions]
    count = len(opened)
    assert all(log.log_end_offset == 1 and not log.was_recovered for log in logs)
    assert count == 0, opened[:5]
    again.close()

"""The cleaner: which log it takes, in a real thread pool, and when things go wrong."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.unit.storage.partition_log import COMPACT, NOW, append, config, contents

from tidelog.model.ids import TopicPartition
from tidelog.runtime.system import System
from tidelog.storage.cleaner import RETRY_MS, LogCleaner
from tidelog.storage.leftovers import remove_all
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory

SMALL = TopicPartition("small", 0)
LARGE = TopicPartition("large", 0)


class Owner:
    """Stands for the event loop: calls arrive from threads and run one after another."""

    def __init__(self, directory: LogDirectory, executor: ThreadPoolExecutor) -> None:
        self.now_ms = NOW
        self.calls: Queue[tuple[Callable[..., None], tuple[Any, ...]]] = Queue()
        self.cleaner = LogCleaner(
            directory,
            executor=executor,
            call_owner=lambda function, *args: self.calls.put((function, args)),
            last_stable_offset=lambda partition: directory.logs[partition].log_end_offset,
            now_ms=lambda: self.now_ms,
        )

    def run_pass(self) -> bool:
        if not self.cleaner.maybe_start():
            return False
        assert not self.cleaner.maybe_start()
        function, args = self.calls.get(timeout=30)
        function(*args)
        assert not self.cleaner.is_running
        return True


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(tmp_path, node_id=1, cluster_id=None, system=System(lambda: NOW))
    yield directory
    directory.close()


@pytest.fixture
def owner(directory: LogDirectory) -> Iterator[Owner]:
    with ThreadPoolExecutor(1) as executor:
        yield Owner(directory, executor)


def fill(directory: LogDirectory, partition: TopicPartition, rounds: int) -> Log:
    log = directory.open_log(partition, config(cleanup_policy=COMPACT, file_delete_delay_ms=0), topic_id=None)
    for at in range(rounds):
        append(log, [(b"k%d" % key, b"%d" % at) for key in range(300)])
    log.writer.roll()
    return log


def test_every_dirty_log_gets_its_turn_and_the_checkpoint_says_so(
    directory: LogDirectory, owner: Owner, tmp_path: Path
) -> None:
    logs = [fill(directory, SMALL, 2), fill(directory, LARGE, 4)]
    before = [contents(log) for log in logs]
    sizes = [log.size_bytes for log in logs]
    assert owner.run_pass()
    assert owner.run_pass()
    assert not owner.run_pass()
    assert [contents(log) for log in logs] == before
    assert [log.size_bytes < size for log, size in zip(logs, sizes, strict=True)] == [True, True]
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n2\nlarge 0 1200\nsmall 0 600\n"


def test_the_dirtiest_goes_first(directory: LogDirectory, owner: Owner) -> None:
    fill(directory, SMALL, 2)
    fill(directory, LARGE, 4)
    directory.cleaner_offsets[LARGE] = 900
    append(directory.logs[LARGE], [(b"k", b"v")])
    assert owner.run_pass()
    assert directory.cleaner_offsets == {LARGE: 900, SMALL: 600}


def test_logs_that_are_not_compacted_are_left_alone(directory: LogDirectory, owner: Owner) -> None:
    log = fill(directory, SMALL, 2)
    log.update_config(config())
    assert not owner.run_pass()


def test_a_damaged_log_is_given_up_and_others_go_on(directory: LogDirectory, owner: Owner) -> None:
    path = Path(fill(directory, LARGE, 4).segments[0].path)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    fill(directory, SMALL, 2)
    assert owner.run_pass()
    assert owner.run_pass()
    assert not owner.run_pass()
    assert directory.cleaner_offsets == {SMALL: 600}
    assert path.read_bytes() == content


def test_a_pass_that_was_overtaken_is_tried_again_later(directory: LogDirectory, owner: Owner) -> None:
    log = fill(directory, SMALL, 2)
    assert owner.cleaner.maybe_start()
    log.rearranger.truncate_to(300)
    log.writer.roll()
    function, args = owner.calls.get(timeout=30)
    function(*args)
    assert directory.cleaner_offsets == {}
    assert not owner.run_pass()
    owner.now_ms += RETRY_MS
    assert owner.run_pass()
    assert directory.cleaner_offsets == {SMALL: 300}


def test_a_log_deleted_meanwhile_leaves_nothing_behind(directory: LogDirectory, owner: Owner, tmp_path: Path) -> None:
    fill(directory, SMALL, 4)
    assert owner.cleaner.maybe_start()
    directory.delete_log(SMALL)
    function, args = owner.calls.get(timeout=30)
    function(*args)
    assert directory.cleaner_offsets == {}
    assert not (tmp_path / "small-0").exists()
    remove_all(directory.take_leftovers())
    assert list(tmp_path.glob("*-delete")) == []


def test_stopping_gives_the_pass_up(directory: LogDirectory, owner: Owner, tmp_path: Path) -> None:
    log = fill(directory, SMALL, 4)
    assert owner.cleaner.maybe_start()
    owner.cleaner.stop()
    function, args = owner.calls.get(timeout=30)
    function(*args)
    assert not owner.run_pass()
    assert list((tmp_path / "small-0").glob("*.cleaned")) == []
    assert contents(log) == {b"k%d" % key: b"3" for key in range(300)}

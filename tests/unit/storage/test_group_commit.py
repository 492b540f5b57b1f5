"""Group commit: one fsync for many, no waiter answered too early, and a failure that stays."""

import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.unit.storage.partition_log import NOW, append, config, open_log

from tidelog.model.errors import ErrorCode
from tidelog.storage.errors import StorageFailure
from tidelog.storage.group_commit import FlushPolicy, GroupCommit
from tidelog.storage.log import Log
from tidelog.storage.log_flusher import PendingFlush


class StepExecutor:
    """Runs what was submitted when the test says so; the real flush of the real log."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[None], Callable[[], None]]] = []

    def submit(self, fn: Callable[[], None], /) -> Future[None]:
        future: Future[None] = Future()
        self.waiting.append((future, fn))
        return future

    def step(self) -> None:
        future, fn = self.waiting.pop(0)
        try:
            fn()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)


def call_now(function: Callable[..., Any], *args: Any) -> None:
    function(*args)


def test_requests_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    executor = StepExecutor()
    commit = GroupCommit(log.flusher, executor, call_now)
    told: list[tuple[str, int]] = []
    append(log, [(b"k", b"v")])
    commit.request(lambda error: told.append(("first", log.recovery_point)))
    for at in range(10):
        append(log, [(b"k", b"v")])
        commit.request(lambda error, at=at: told.append((f"later {at}", log.recovery_point)))
    assert (len(executor.waiting), told) == (1, [])
    executor.step()
    assert told == [("first", 1)]
    assert len(executor.waiting) == 1
    executor.step()
    assert told[1:] == [(f"later {at}", 11) for at in range(10)]
    assert (commit.flushes, commit.is_running, executor.waiting) == (2, False, [])


def test_a_request_without_a_callback_flushes_too(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    executor = StepExecutor()
    commit = GroupCommit(log.flusher, executor, call_now)
    append(log, [(b"k", b"v")])
    commit.request()
    append(log, [(b"k", b"v")])
    commit.request()
    executor.step()
    executor.step()
    assert log.recovery_point == 2


def test_with_threads(tmp_path: Path) -> None:
    """The owner takes completions from a queue, as an event loop does."""
    log = open_log(tmp_path)
    calls: Queue[tuple[Callable[..., None], tuple[Any, ...]]] = Queue()
    told: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        commit = GroupCommit(log.flusher, executor, lambda function, *args: calls.put((function, args)))
        for _ in range(200):
            result = append(log, [(b"k", b"v")])
            commit.request(
                lambda error, last=result.last_offset: told.append(last) if log.recovery_point > last else None
            )
            while not calls.empty():
                function, args = calls.get()
                function(*args)
        while commit.is_running:
            function, args = calls.get(timeout=10)
            function(*args)
    assert told == list(range(200))
    assert commit.flushes <= 200


class FailingLog:
    """A log whose device reports an error for every sync; no real disk does so on demand."""

    def begin_flush(self) -> Any:
        class Pending:
            def sync(self) -> None:
                raise StorageFailure("cannot sync: [Errno 5] Input/output error")

        return Pending()

    def finish_flush(self, flush: Any) -> None:
        pytest.fail("a failed flush must not count")


def test_a_failed_flush_fails_everyone_and_is_never_tried_again() -> None:
    executor = StepExecutor()
    offline: list[StorageFailure] = []
    commit = GroupCommit(FailingLog(), executor, call_now, offline.append)
    told: list[StorageFailure | None] = []
    for _ in range(3):
        commit.request(told.append)
    executor.step()
    assert len(told) == 3
    assert all(error is not None and error.code == ErrorCode.KAFKA_STORAGE_ERROR for error in told)
    assert (len(offline), executor.waiting) == (1, [])
    commit.request(told.append)
    assert told[3] is commit.failure
    assert executor.waiting == []


class BusyLog:
    """A log whose files cannot be opened at first."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.refusals = 1

    def begin_flush(self) -> PendingFlush:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._log.flusher.begin_flush()

    def finish_flush(self, flush: PendingFlush) -> None:
        self._log.flusher.finish_flush(flush)


def test_a_flush_that_could_not_begin_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    executor = StepExecutor()
    offline: list[StorageFailure] = []
    commit = GroupCommit(BusyLog(log), executor, call_now, offline.append)
    told: list[StorageFailure | None] = []
    append(log, [(b"k", b"v")])
    commit.request(told.append)
    assert [error is not None and error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert (offline, commit.failure, commit.is_running, log.recovery_point) == ([], None, False, 0)
    commit.request(told.append)
    executor.step()
    assert (told[1], log.recovery_point) == (None, 1)


def test_policy() -> None:
    never = FlushPolicy(config())
    assert not never.is_active
    assert not never.appended(10**9, NOW)
    assert never.deadline_ms() is None
    policy = FlushPolicy(config(flush_messages=3, flush_ms=500))
    assert policy.is_active
    assert policy.deadline_ms() is None
    assert [policy.appended(count, NOW + count) for count in (1, 2, 3)] == [False, False, True]
    assert policy.deadline_ms() == NOW + 1 + 500
    policy.flush_started()
    assert policy.deadline_ms() is None
    assert not policy.appended(1, NOW + 50)
    assert policy.deadline_ms() == NOW + 550
    policy.update_config(config(flush_ms=10))
    assert policy.deadline_ms() == NOW + 60

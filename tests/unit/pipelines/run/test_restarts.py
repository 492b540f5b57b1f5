"""When a failed query is started again, and that a failing one leaves the others alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.progress import QueryStatus
from tidelog.pipelines.run.restarts import Failure, RestartMachine
from tidelog.pipelines.run.supervisor import Supervisor, Watched
from tidelog.pipelines.spec.model import Restart

SETTINGS = Restart(attempts_max=3, delay_ms=100, delay_max_ms=300)


def test_the_delay_doubles_up_to_its_limit_and_attempts_end() -> None:
    machine = RestartMachine(SETTINGS)
    delays = []
    while machine.take_failure(Failure(text="x"), now_ms=1000):
        assert machine.due_ms is not None
        delays.append(machine.due_ms - 1000)
        assert not machine.is_due(machine.due_ms - 1)
        assert machine.is_due(machine.due_ms)
        machine.take_start()
    assert delays == [100, 200, 300]
    assert machine.restarts == 3


def test_a_completed_batch_ends_a_row_of_failures() -> None:
    machine = RestartMachine(SETTINGS)
    for _ in range(20):
        assert machine.take_failure(Failure(text="x"), now_ms=0)
        assert machine.due_ms == 100
        machine.take_progress()


def test_a_broker_that_is_away_is_waited_for() -> None:
    machine = RestartMachine(SETTINGS)
    assert all(machine.take_failure(Failure(text="x", kind="unreachable"), now_ms=0) for _ in range(100))
    assert machine.due_ms == 300


def test_what_another_attempt_cannot_cure_is_not_tried_again() -> None:
    machine = RestartMachine(SETTINGS)
    assert not machine.take_failure(Failure(text="x", kind="fatal"), now_ms=0)
    assert machine.due_ms is None


class Scripted:
    """A query that ends after so many looks, well or with an error."""

    def __init__(self, looks: int, error: BaseException | None = None) -> None:
        self._looks = looks
        self._error = error

    def is_active(self) -> bool:
        self._looks -= 1
        return self._looks > 0

    def failure(self) -> BaseException | None:
        return self._error

    def reports(self, after_batch: int) -> Iterable[dict[str, Any]]:
        return [{"batchId": after_batch + 1, "runId": id(self), "timestamp": after_batch, "numInputRows": 1}]

    def stop(self) -> None:
        self._looks = 0


def test_one_failing_query_does_not_take_the_others_down() -> None:
    runs = {"good": [Scripted(8)], "shaky": [Scripted(1, OSError("once")), Scripted(1)], "bad": []}

    def watch(name: str) -> Watched:
        def start() -> Scripted:
            if name == "bad":
                raise ValueError("never")
            return runs[name].pop(0)

        def explain(error: BaseException) -> Failure:
            return Failure(text=f"{name}: {error}", kind="fatal" if name == "bad" else "other")

        return Watched(QueryStatus(name=name, target=""), start, explain, Restart(delay_ms=1, delay_max_ms=1))

    lines: list[str] = []
    supervisor = Supervisor({name: watch(name) for name in runs}, lines.append)
    assert not supervisor.run(threading.Event(), lambda: None)
    assert {status.name: (status.state, status.restarts) for status in supervisor.statuses} == {
        "good": ("done", 0),
        "shaky": ("done", 1),
        "bad": ("failed", 0),
    }
    assert sorted(lines) == ["bad: never", "shaky: once; trying again in 0 s, then at longer intervals"]


def test_a_wish_to_stop_ends_everything() -> None:
    stop = threading.Event()
    status = QueryStatus(name="q", target="")
    watched = Watched(status, lambda: Scripted(10**9), lambda error: Failure(text=str(error)), Restart())
    assert Supervisor({"q": watched}, lambda _text: None).run(stop, stop.set)
    assert status.state == "stopped"


def test_a_spark_that_went_away_ends_the_run_with_one_line() -> None:
    class Gone(Scripted):
        def is_active(self) -> bool:
            raise ConnectionRefusedError(111, "Connection refused")

        def stop(self) -> None:
            raise ConnectionRefusedError(111, "Connection refused")

    watched = Watched(QueryStatus(name="q", target=""), lambda: Gone(1), lambda error: Failure(text=""), Restart())
    with pytest.raises(PipelineError, match=r"Spark went away .* run the pipeline again"):
        Supervisor({"q": watched}, lambda _text: None).run(threading.Event(), lambda: None)

"""Keeps the queries of a pipeline going: each is watched by itself, and one that fails does not touch the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.progress import QueryStatus
from tidelog.pipelines.run.queries import Running
from tidelog.pipelines.run.restarts import Failure, RestartMachine
from tidelog.pipelines.spec.model import Restart

POLL_SECONDS = 0.3

StartQuery = Callable[[], Running]
Explain = Callable[[BaseException], Failure]
Report = Callable[[str], None]
"""Takes a line about something that happened, for people."""


class Watched:
    """One query: how it is started, how it goes, and when it is started again."""

    def __init__(self, status: QueryStatus, start: StartQuery, explain: Explain, restart: Restart) -> None:
        self.status = status
        self._start = start
        self._explain = explain
        self._machine = RestartMachine(restart)
        self._running: Running | None = None

    @property
    def is_over(self) -> bool:
        return self.status.state in ("done", "failed", "stopped")

    def start(self, report: Report, now_ms: int) -> None:
        self.status.state = "starting"
        try:
            self._running = self._start()
        except Exception as error:
            self._take_failure(error, report, now_ms)
            return
        self.status.state = "running"

    def look(self, report: Report, now_ms: int) -> None:
        """Takes in what happened since the last look."""
        if self.status.state == "waiting" and self._machine.is_due(now_ms):
            self._machine.take_start()
            self.status.restarts = self._machine.restarts
            self.start(report, now_ms)
            return
        running = self._running
        if running is None or self.status.state != "running":
            return
        # Asked in this order, so that what came in before the end is not missed.
        active = running.is_active()
        if self._take_reports(running):
            self._machine.take_progress()
            self.status.error = ""
        if active:
            return
        failure = running.failure()
        if failure is None:
            self.status.state = "done"
        else:
            self._take_failure(failure, report, now_ms)

    def _take_reports(self, running: Running) -> bool:
        batches = self.status.batches
        for progress in running.reports(self.status.batch_id):
            self.status.take(progress)
        return self.status.batches > batches

    def _take_failure(self, error: BaseException, report: Report, now_ms: int) -> None:
        failure = self._explain(error)
        again = self._machine.take_failure(failure, now_ms)
        is_news = failure.text != self.status.error
        self.status.error = failure.text
        self._running = None
        if again:
            assert self._machine.due_ms is not None
            self.status.state = "waiting"
            if is_news:
                seconds = (self._machine.due_ms - now_ms) / 1000
                report(f"{failure.text}; trying again in {seconds:.0f} s, then at longer intervals")
        else:
            self.status.state = "failed"
            report(failure.text)

    def stop(self) -> None:
        if self._running is not None and self.status.state == "running":
            # Whatever keeps a query from being stopped, its checkpoint says where it was.
            with contextlib.suppress(Exception):
                self._running.stop()
                self._take_reports(self._running)
        if not self.is_over:
            self.status.state = "stopped"


class Supervisor:
    """Starts the queries and watches them until all are over or the run is stopped."""

    def __init__(self, watched: Mapping[str, Watched], report: Report) -> None:
        self._watched = watched
        self._report = report

    @property
    def statuses(self) -> list[QueryStatus]:
        return [watched.status for watched in self._watched.values()]

    def run(self, stop: threading.Event, tick: Callable[[], None]) -> bool:
        """True when no query failed; `tick` is called after every look, for views and state files."""
        try:
            for watched in self._watched.values():
                if stop.is_set():
                    break
                watched.start(self._report, _now_ms())
                tick()
            while not stop.is_set() and not all(watched.is_over for watched in self._watched.values()):
                for watched in self._watched.values():
                    watched.look(self._report, _now_ms())
                tick()
                stop.wait(POLL_SECONDS)
        except (ConnectionError, EOFError) as error:
            raise PipelineError(f"Spark went away ({error}); nothing is lost, run the pipeline again") from None
        finally:
            self._stop_all()
            tick()
        return not any(watched.status.state == "failed" for watched in self._watched.values())

    def _stop_all(self) -> None:
        """At the same time: each may be in the middle of a batch that takes a while to end."""
        stopping = [threading.Thread(target=watched.stop, daemon=True) for watched in self._watched.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()


def _now_ms() -> int:
    return int(time.monotonic() * 1000)

"""One run of a pipeline, from the checks before anything is touched to the end of the last query.

In this order, so that every mistake is found before the first record moves: what it needs is there (run/preflight.py),
no other process runs it, its checkpoint can follow, all frames can be built; only then queries are started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery.checkpoint import Positions, files_in
from tidelog.pipelines.errors import PipelineError, Unreachable
from tidelog.pipelines.run.explain import explain_query_failure
from tidelog.pipelines.run.frames import FrameBuilder
from tidelog.pipelines.run.lag import LagWatcher
from tidelog.pipelines.run.preflight import check_surroundings, named
from tidelog.pipelines.run.progress import QueryStatus
from tidelog.pipelines.run.queries import Running, ShowRows, packages_needed, start_query, tables_needed
from tidelog.pipelines.run.restarts import Failure
from tidelog.pipelines.run.senders import choose_senders
from tidelog.pipelines.run.state_files import StateFiles
from tidelog.pipelines.run.supervisor import Supervisor, Watched
from tidelog.pipelines.spec.document import SpecError
from tidelog.pipelines.spec.fingerprint import check_checkpoint, fingerprint
from tidelog.pipelines.spec.graph import upstream
from tidelog.pipelines.spec.model import ConsoleSink, Pipeline, Sink, TopicSink, TopicSource
from tidelog.pipelines.topics.broker import ensure_topic, is_reachable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_WRITE_SECONDS = 1.0
"""How old the state of a run may become while nothing happens: its age shows that the run is alive."""


class PipelineRun:
    """Runs one pipeline. `report` gets lines for people, `tick` is called a few times a second while queries run."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        bootstrap: str,
        report: Callable[[str], None],
        show_rows: ShowRows,
        master: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._bootstrap = bootstrap
        self._report = report
        self._show_rows = show_rows
        self._master = master
        self._spark = spark
        self._files = StateFiles(pipeline.checkpoint)
        self._started_ms = int(time.time() * 1000)
        self._written_at = 0.0
        self._written: list[dict[str, Any]] = []
        self.stop = threading.Event()
        """Set it, from any thread or a signal handler, to end the run."""
        self.statuses: list[QueryStatus] = [
            QueryStatus(name=sink.name, target=describe_target(sink)) for sink in pipeline.sinks.values()
        ]

    def run(self, tick: Callable[[], None] = lambda: None) -> bool:
        """True when every query ended well. PipelineError before anything is touched, when something is wrong."""
        check_surroundings(self._pipeline, self._bootstrap, self._master)
        with self._files.hold():
            self._check_checkpoint()
            self._make_topics()
            spark = self._spark or open_session(self._pipeline, self._master)
            senders = self._choose_senders(spark)
            builder = FrameBuilder(spark, self._pipeline, self._bootstrap, senders)
            frames = {sink.name: builder.build(sink) for sink in self._pipeline.sinks.values()}
            self._files.write_fingerprint(fingerprint(self._pipeline, senders))
            watched = {
                status.name: self._watch(self._pipeline.sinks[status.name], status, frames.pop(status.name), builder)
                for status in self.statuses
            }
            supervisor = Supervisor(watched, self._report)
            lag = LagWatcher(self._bootstrap, self._pipeline.client, self.statuses)
            lag.start()
            try:
                return supervisor.run(self.stop, lambda: self._tick(tick))
            finally:
                lag.stop()
                self._write_state(running=False)

    # -- before ----------------------------------------------------------------------------------------------------

    def _check_checkpoint(self) -> None:
        kept = self._files.read_fingerprint()
        if kept is None:
            return
        try:
            for note in check_checkpoint(self._pipeline, kept):
                self._report(note)
        except SpecError as error:
            raise PipelineError(str(error.problems[0])) from None

    def _choose_senders(self, spark: SparkSession) -> dict[str, str]:
        def position_of(sink: str) -> Positions:
            return files_in(spark, f"{self._pipeline.checkpoint}/{sink}").positions()

        kept = (self._files.read_fingerprint() or {}).get("senders", {})
        senders, notes = choose_senders(self._pipeline, kept, position_of)
        for note in notes:
            self._report(note)
        return senders

    def _make_topics(self) -> None:
        """Makes the topics of sinks for which the file says how many partitions they have, and those for the dead
        letters of rules (`read_topic` makes those for records that do not parse)."""
        for sink in self._pipeline.sinks.values():
            if isinstance(sink, TopicSink) and sink.partitions:
                with named(self._pipeline, sink.line, f"sink {sink.name}"):
                    ensure_topic(self._bootstrap, sink.topic, sink.partitions, self._pipeline.client)
        for relation in [*self._pipeline.sources.values(), *self._pipeline.steps.values()]:
            drops = [rule for rule in relation.rules if rule.otherwise == "drop"]
            if drops:
                with named(self._pipeline, drops[0].line, f"rule {drops[0].name}"):
                    ensure_topic(self._bootstrap, relation.dead_letters, 1, self._pipeline.client)

    # -- while it runs ---------------------------------------------------------------------------------------------

    def _watch(self, sink: Sink, status: QueryStatus, frame: DataFrame, builder: FrameBuilder) -> Watched:
        first = [frame]

        def start() -> Running:
            # A query that is started again gets a new plan: what it joins with may have changed meanwhile.
            if not first:
                self._require_broker(sink)
            current = first.pop() if first else builder.build(sink)
            return start_query(
                current,
                sink,
                self._pipeline,
                bootstrap=self._bootstrap,
                checkpoint=f"{self._pipeline.checkpoint}/{sink.name}",
                show_rows=self._show_rows,
            )

        def explain(error: BaseException) -> Failure:
            return explain_query_failure(self._pipeline, sink, error, self._bootstrap)

        return Watched(status, start, explain, self._pipeline.restart)

    def _require_broker(self, sink: Sink) -> None:
        """Clients try for a long time before they report that no broker answers; the other queries are watched
        meanwhile."""
        parts = [self._pipeline.relation(name) for name in upstream(self._pipeline, sink.input)]
        needed = isinstance(sink, TopicSink) or any(isinstance(part, TopicSource) for part in parts)
        if needed and not is_reachable(self._bootstrap):
            raise Unreachable(f"no broker answers at {self._bootstrap}", "nothing accepts a connection there")

    def _tick(self, tick: Callable[[], None]) -> None:
        if self._files.is_asked_to_stop():
            self.stop.set()
        # Before the batch is reported: a reader of the report who asks for the status must find the batch there.
        is_news = [status.as_document() for status in self.statuses] != self._written
        if is_news or time.monotonic() - self._written_at > STATE_WRITE_SECONDS:
            self._write_state(running=True)
        tick()

    def _write_state(self, *, running: bool) -> None:
        document = self.as_document(running=running)
        self._written_at, self._written = time.monotonic(), document["queries"]
        try:
            self._files.write_run(document)
        except OSError as error:
            # `status` will be behind; the queries are not touched by it.
            self._report(f"the state of the run cannot be written: {error}")

    def as_document(self, *, running: bool) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline.name,
            "file": str(self._pipeline.path.absolute()),
            "running": running,
            "started_ms": self._started_ms,
            "queries": [status.as_document() for status in self.statuses],
        }


def open_session(pipeline: Pipeline, master: str | None) -> SparkSession:
    """The session a pipeline asks for: `master` wins over the file, the file over the environment."""
    from tidelog.pipelines.spark.session import session

    config = {name: value for name, value in pipeline.spark.items() if name.startswith("spark.")}
    return session(
        master or pipeline.spark.get("master"),
        app=f"tidelog {pipeline.name}",
        tables=tables_needed(pipeline),
        packages=packages_needed(pipeline),
        config=config,
    )


def describe_target(sink: Sink) -> str:
    """Where the rows of a sink go, in a few words."""
    if isinstance(sink, TopicSink):
        return f"topic {sink.topic}"
    return "console" if isinstance(sink, ConsoleSink) else f"{sink.format} {sink.location}"

"""A pipeline in a process of its own, which a test kills: a topic into a topic and tables, all that is there now.

The moment of death is chosen by TIDELOG_TEST_KILL (see `sitecustomize` in `kills/`, which Spark's Python workers load):
`open`, `partial` and `committed`. The process group of this process holds the driver and its JVM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines import read_topic, session, write_table, write_topic
from tidelog.pipelines.tables import table_sink
from tidelog.pipelines.topics import topic_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""For JVMs that end before the second compiler has paid for itself."""
SMALL = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.cores.max": "2",
    # Of a standalone cluster: no task before all executors are there, or the first of them may do all the work.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    # Otherwise a task waits seconds for the executor that read its partition last.
    "spark.locality.wait": "0",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What is read and written; `state` is a directory for checkpoints and tables."""

    bootstrap: str
    source: str
    sink: str
    state: str
    per_batch: int
    tables: tuple[str, ...] = ("parquet",)
    master: str = "local[2]"
    trigger: str = "available-now"
    shuffled: bool = False
    """Rows are brought together by target partition before they are written, instead of by the tasks that read."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def table(self, table_format: str) -> str:
        return f"{self.state}/table-{table_format}"


def start(spark: SparkSession, pipeline: Pipeline) -> list[Any]:
    """The running queries: one into the topic and one into each table."""
    df = read_topic(
        spark,
        pipeline.source,
        bootstrap=pipeline.bootstrap,
        value="bytes",
        stream=True,
        max_offsets_per_trigger=pipeline.per_batch,
    )
    queries: list[Any] = [
        write_topic(
            df,
            pipeline.sink,
            bootstrap=pipeline.bootstrap,
            checkpoint=f"{pipeline.state}/checkpoint-topic",
            trigger=pipeline.trigger,
            order_by=("partition", "offset") if pipeline.shuffled else None,
        )
    ]
    queries += [
        write_table(
            df,
            pipeline.table(table_format),
            format=table_format,
            checkpoint=f"{pipeline.state}/checkpoint-{table_format}",
            trigger=pipeline.trigger,
        )
        for table_format in pipeline.tables
    ]
    return queries


def end_after_the_batch(queries: int) -> None:
    """Death when every query has committed a batch and no checkpoint was told."""
    together = threading.Barrier(queries)
    for batch_class in (topic_sink.TopicBatch, table_sink.TableBatch):
        write = batch_class.__call__

        def write_and_die(self: Any, df: object, batch: int, write: Any = write) -> None:
            write(self, df, batch)
            together.wait(300)
            os.killpg(os.getpgid(0), signal.SIGKILL)

        batch_class.__call__ = write_and_die  # type: ignore[method-assign,assignment]


def main(text: str) -> None:
    given = json.loads(text)
    pipeline = Pipeline(**{**given, "tables": tuple(given["tables"])})
    if os.environ.get("TIDELOG_TEST_KILL") == "committed":
        end_after_the_batch(1 + len(pipeline.tables))
    spark = session(
        pipeline.master,
        tables=[name for name in pipeline.tables if name != "parquet"],
        config=SMALL,
    )
    shuffles = spark.conf.get("spark.sql.shuffle.partitions")
    assert shuffles == "2", f"two cores, and a shuffle has {shuffles} partitions"
    for query in start(spark, pipeline):
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A pipeline in a process of its own, which a test kills: topic to topic, exactly once, all that is there now.

The moment of death is chosen by TIDELOG_TEST_KILL (see `sitecustomize` in `kills/`, which Spark's Python workers load):
`open`, `partial` and `committed`. The process group of this process holds the driver and its JVM.
"""

from __future__ import annotations

import os
import signal
import sys

from tidelog.pipelines import read_topic, session, topic_sink, write_topic


def end_after_the_batch() -> None:
    """Death after every transaction of a batch, before the checkpoint is told."""
    write = topic_sink.TopicBatch.__call__

    def write_and_die(self: topic_sink.TopicBatch, df: object, batch: int) -> None:
        write(self, df, batch)  # type: ignore[arg-type]
        os.killpg(os.getpgid(0), signal.SIGKILL)

    topic_sink.TopicBatch.__call__ = write_and_die  # type: ignore[method-assign,assignment]


def main(bootstrap: str, source: str, sink: str, checkpoint: str, per_batch: str, master: str) -> None:
    if os.environ.get("TIDELOG_TEST_KILL") == "committed":
        end_after_the_batch()
    spark = session(
        master, config={"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.cores.max": "2"}
    )
    df = read_topic(
        spark, source, bootstrap=bootstrap, value="bytes", stream=True, max_offsets_per_trigger=int(per_batch)
    )
    write_topic(df, sink, bootstrap=bootstrap, checkpoint=checkpoint, trigger="available-now").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

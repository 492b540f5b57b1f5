"""How many partitions a shuffle has on a cluster: as many as it has cores, unless the user chose a number.

Spark's own default of 200 is a task each for every batch of a stream, whatever the batch holds: most of the time that a
small stream takes. A stream keeps the number it began with (Spark stores it in the checkpoint). Queries over tables
begin with 200 and are brought down to what their data needs by adaptive execution, so large ones stay spread out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SPARKS_DEFAULT = "200"
BEFORE_COALESCING = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
DELTA_LOG_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
EXECUTORS_SECONDS_MAX = 10.0
"""How long a session waits for the executors of its cluster before it counts cores."""
_LOOK_SECONDS = 0.1
_QUIET_LOOKS = 5
"""When so many looks find the same number of executors, all of them have come."""


def size_shuffles(spark: SparkSession, given: Mapping[str, str]) -> None:
    """For a session on a cluster. `given` is what its caller set; other choices are found in the session itself."""
    if SHUFFLE_PARTITIONS in given or spark.conf.get(SHUFFLE_PARTITIONS, SPARKS_DEFAULT) != SPARKS_DEFAULT:
        return
    partitions = str(max(2, count_cores(spark)))
    spark.conf.set(SHUFFLE_PARTITIONS, partitions)
    for name, value in ((BEFORE_COALESCING, SPARKS_DEFAULT), (DELTA_LOG_PARTITIONS, partitions)):
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, value)


def count_cores(spark: SparkSession) -> int:
    """What Spark takes for the number of tasks that run at once."""
    if not hasattr(spark, "_jvm"):
        # Spark Connect has no context to ask; a range is cut into as many parts as there are cores.
        rows = spark.range(4096).selectExpr("spark_partition_id() AS part").collect()
        return len({row["part"] for row in rows})
    wait_for_executors(spark)
    return int(spark.sparkContext.defaultParallelism)


def wait_for_executors(spark: SparkSession) -> None:
    """Until no more of them come; a standalone cluster starts them after the session."""
    context: Any = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + EXECUTORS_SECONDS_MAX
    seen, looks = 0, 0
    while looks < _QUIET_LOOKS and time.monotonic() < deadline:
        # The driver is one of those that are counted.
        executors = int(context.getExecutorMemoryStatus().size()) - 1
        looks = looks + 1 if executors == seen > 0 else 0
        seen = executors
        time.sleep(_LOOK_SECONDS)

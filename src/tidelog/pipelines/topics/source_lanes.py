"""Whether a stream reaches its sink in the tasks that read the topic, and which part of the topic each task reads.

Where only columns and filters lie between the source and the sink, every task of a batch has the records of one
source partition, in order and the same ones whenever the batch runs. Such a task can be a lane of its own, and no row
has to move between tasks. Asked of Spark's plans, so only where there is a JVM to ask (not with Spark Connect).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.formats.protobuf_format import DECODER
from tidelog.pipelines.topics.broker import librdkafka_options
from tidelog.pipelines.topics.dead_letters import SENDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NARROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "CollectMetrics"})
"""Steps that give a task the rows of one task, in their order; the last one counts them as they pass."""
_OWN = frozenset({SENDER, DECODER})
"""Python functions of ours that may run in a task that writes: they take no more time than their rows need."""
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")
"""Options of the connector that give the records of one source partition to several tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceScan:
    """The topics a stream reads, and how to ask their broker."""

    bootstrap: str
    topics: tuple[str, ...]
    client: Mapping[str, str]


def source_scan(df: DataFrame) -> SourceScan | None:
    """The source of a stream whose sink can write in the tasks that read, or None.

    Rows are then computed while the transaction is open, so Python functions of users, which may take any time, rule
    it out. So does a subquery: Spark makes a join of it, with or without a shuffle as it finds best.
    """
    if not hasattr(df, "_jdf"):
        return None
    jvm: Any = df.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    python_call, subquery = patterns.PYTHON_UDF(), patterns.PLAN_EXPRESSION()
    node: Any = df._jdf.queryExecution().analyzed()
    while node.nodeName() in _NARROW:
        expressions = node.expressions()
        if any(expressions.apply(index).containsPattern(subquery) for index in range(expressions.size())):
            return None
        if any(name not in _OWN for name in _python_calls(expressions, python_call)):
            return None
        node = node.children().head()
    if not node.getClass().getName().endswith(".StreamingRelationV2") or node.sourceName() != "kafka":
        return None
    options: Mapping[str, str] = dict(node.extraOptions().asCaseSensitiveMap())
    given = {name.lower() for name in options}
    if "subscribe" not in options or any(name.lower() in given for name in _SPLITTING):
        return None
    return SourceScan(
        bootstrap=options["kafka.bootstrap.servers"],
        topics=tuple(name.strip() for name in options["subscribe"].split(",")),
        client=librdkafka_options(options),
    )


def task_lanes(df: DataFrame) -> tuple[str, ...] | None:
    """`<topic>-<partition>` of the source for every task of a batch, or None if the tasks are not those of a source."""
    rdd: Any = df._jdf.queryExecution().toRdd()
    while (dependencies := rdd.dependencies()).size():
        dependency = dependencies.head()
        if dependencies.size() > 1 or not dependency.getClass().getName().endswith(".OneToOneDependency"):
            return None
        rdd = dependency.rdd()
    if not rdd.getClass().getName().endswith(".DataSourceRDD"):
        return None
    lanes = []
    for task in rdd.partitions():
        inputs = task.inputPartitions()
        if inputs.size() != 1 or not inputs.head().getClass().getName().endswith(".KafkaBatchInputPartition"):
            return None
        place = inputs.head().offsetRange().topicPartition()
        lanes.append(f"{place.topic()}-{place.partition()}")
    return tuple(lanes) if len(set(lanes)) == len(lanes) else None


def _python_calls(expressions: Any, pattern: Any) -> Iterator[str]:
    """Names of the Python functions in a Scala sequence of expressions."""
    for index in range(expressions.size()):
        expression = expressions.apply(index)
        if not expression.containsPattern(pattern):
            continue
        if expression.getClass().getName().endswith(".PythonUDF"):
            yield str(expression.name())
        yield from _python_calls(expression.children(), pattern)

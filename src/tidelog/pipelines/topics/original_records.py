"""The record that a row was made from: bytes of key and value, headers and place, kept under the frame.

`read_topic` keeps it in the column RECORD below the columns it hands out. Spark leaves a column out that is not used,
so it costs nothing until a dead letter needs it. `with_record` brings it up again, through steps whose rows still come
from one record each. Where rows come from several records, or from a table, there is no record to bring up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD = "__tidelog_record"
"""A struct of the connector's own columns: key, value, headers, topic, partition, offset, timestamp."""
FIELDS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_WHOLE_ROWS = frozenset(
    {
        "CollectMetrics",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "GlobalLimit",
        "LocalLimit",
        "Repartition",
        "RepartitionByExpression",
        "Sort",
        "SubqueryAlias",
        "View",
        "Window",
    }
)
"""Nodes of a plan with one input whose rows hold all columns of a row of that input."""


def record_column() -> Column:
    """The column RECORD over the columns of the connector."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*FIELDS).alias(RECORD)


def with_record(df: DataFrame) -> DataFrame | None:
    """The same rows with the column RECORD beside the others; None where a row is not made from one record.

    Spark Connect does not show its plans, so there the column must be one of `df` (`read_topic(keep_record=True)`).
    """
    if RECORD in df.columns:
        return df
    if not hasattr(df, "_jdf"):
        return None
    from pyspark.sql import DataFrame

    session: Any = df.sparkSession
    plan = _carry(df._jdf.queryExecution().analyzed(), session._jvm)
    if plan is None:
        return None
    return DataFrame(session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def _carry(node: Any, jvm: Any) -> Any:
    """The node with RECORD as its last column, or as it is if it has it anywhere; None if it cannot have it."""
    if _record_of(node) is not None:
        return node
    kind = node.nodeName()
    if kind == "Join":
        return _carry_join(node, jvm)
    children = [_carry(child, jvm) for child in _elements(node.children())] if _passes_rows(node) else []
    if not children or None in children:
        return None
    if kind == "Project":
        return _project(jvm, node.projectList(), children[0])
    if kind == "Union":
        # A union goes by the place of a column, so every part has the same columns and RECORD behind them.
        inputs = _elements(node.children())
        children = [_project(jvm, part.output(), child) for part, child in zip(inputs, children, strict=True)]
    return _with_children(node, children)


def _passes_rows(node: Any) -> bool:
    kind = node.nodeName()
    return kind in _WHOLE_ROWS or kind == "Project" or (kind == "Union" and not node.byName())


def _carry_join(node: Any, jvm: Any) -> Any:
    """A row that looks something up elsewhere still comes from one record: that of the stream, or of the only topic.

    Not so for two streams: rows come from two records, and both sides are kept as state, whose columns a checkpoint
    has fixed.
    """
    sides = [node.left(), node.right()]
    streams = [side.isStreaming() for side in sides]
    if all(streams):
        return None
    carried = [_carry(side, jvm) if streams[index] or not any(streams) else None for index, side in enumerate(sides)]
    if sum(side is not None for side in carried) != 1:
        return None
    joined = _with_children(node, [found or side for found, side in zip(carried, sides, strict=True)])
    # A semi join has the columns of its left side only.
    return joined if _record_of(joined) is not None else None


def _project(jvm: Any, columns: Any, child: Any) -> Any:
    record = _record_of(child)
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns.appended(record), child)


def _record_of(node: Any) -> Any:
    """The attribute RECORD in the output of a node."""
    return next((attribute for attribute in _elements(node.output()) if attribute.name() == RECORD), None)


def _with_children(node: Any, children: list[Any]) -> Any:
    changed = node.children()
    for index, child in enumerate(children):
        changed = changed.updated(index, child)
    return node.withNewChildren(changed)


def _elements(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]

"""Topics to tables, tables to topics, on Spark; reaches a broker over the wire only, Tidelog or any Kafka.

    from tidelog.pipelines import read_topic, session, write_table

    spark = session(tables=("delta",))
    orders = read_topic(spark, "orders", bootstrap="127.0.0.1:9092", schema="id BIGINT, amount DOUBLE", stream=True)
    write_table(orders, "/lake/orders", format="delta", checkpoint="/lake/_checkpoints/orders").awaitTermination()

The names are imported when they are first used: nothing here needs PySpark until a session is made. The packages, top
layer first: `jobs`, `run`, `spec`, `topics` beside `tables`, `formats`, `delivery`, `spark`. Imports only point down.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.pipelines.errors import MissingRequirement, PipelineError
    from tidelog.pipelines.spark.session import session
    from tidelog.pipelines.tables.table_sink import TableWrite, read_table, write_table
    from tidelog.pipelines.topics.dead_letters import divert
    from tidelog.pipelines.topics.topic_sink import TopicWrite, write_topic
    from tidelog.pipelines.topics.topic_source import read_topic

_PLACES = {
    "MissingRequirement": "errors",
    "PipelineError": "errors",
    "TableWrite": "tables.table_sink",
    "TopicWrite": "topics.topic_sink",
    "divert": "topics.dead_letters",
    "read_table": "tables.table_sink",
    "read_topic": "topics.topic_source",
    "session": "spark.session",
    "write_table": "tables.table_sink",
    "write_topic": "topics.topic_sink",
}

__all__ = [
    "MissingRequirement",
    "PipelineError",
    "TableWrite",
    "TopicWrite",
    "divert",
    "read_table",
    "read_topic",
    "session",
    "write_table",
    "write_topic",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'tidelog.pipelines' has no attribute {name!r}")
    found = getattr(import_module(f"tidelog.pipelines.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

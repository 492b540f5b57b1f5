"""A client of a Spark Connect server, in a process of its own: a classic session and a remote one exclude each other.

Takes bootstrap, the server's URL, a topic to read, two to write, a Protobuf descriptor and a directory; prints one line
of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import functions

from tidelog.pipelines import PipelineError, divert, read_table, read_topic, session, write_table, write_topic
from tidelog.pipelines.jobs.compact import compact


def finish(queries: list[Any]) -> None:
    for query in queries:
        assert query.awaitTermination(300), "a query does not end"
        assert query.exception() is None, query.exception()


def main(bootstrap: str, server: str, source: str, sink: str, messages: str, descriptor: str, place: str) -> None:
    spark = session(server)
    found_shuffles = spark.conf.get("spark.sql.shuffle.partitions")
    batch = read_topic(spark, source, bootstrap=bootstrap, schema="id BIGINT")
    found: dict[str, Any] = {"shuffles": found_shuffles}
    found |= {"kind": type(spark).__module__, "read": sorted(row.value.id for row in batch.collect())}
    whole = read_topic(spark, source, bootstrap=bootstrap, schema="n BIGINT", keep_record=True)
    reason = functions.when(whole["offset"] == 0, "the first")
    found["diverted"] = divert(whole, reason, topic=f"{source}.first", bootstrap=bootstrap).count()
    df = read_topic(
        spark, source, bootstrap=bootstrap, schema="id BIGINT", stream=True, max_offsets_per_trigger=60
    ).select("key", "value.id", "topic", "partition", "offset")

    def to_topic() -> Any:
        return write_topic(df, sink, bootstrap=bootstrap, checkpoint=f"{place}/topic", trigger="available-now")

    queries = [
        to_topic(),
        write_table(df, f"{place}/rows", checkpoint=f"{place}/table", trigger="available-now"),
    ]
    finish(queries)
    # A checkpoint is taken up again.
    finish([to_topic()])
    found["batch"] = write_topic(
        spark.range(5).selectExpr("CAST(id AS STRING) AS key", "id AS value"),
        sink,
        bootstrap=bootstrap,
        checkpoint=f"{place}/batch",
    ).rows
    write_topic(
        spark.range(5).selectExpr("CAST(id AS STRING) AS key", "id"),
        messages,
        bootstrap=bootstrap,
        value_format="protobuf",
        schema=descriptor,
        message="tidelog.test.Order",
    )
    orders = read_topic(
        spark, messages, bootstrap=bootstrap, value="protobuf", schema=descriptor, message="tidelog.test.Order"
    )
    found["messages"] = sorted(row.value.id for row in orders.collect())
    found["rows"] = sorted(row.id for row in read_table(spark, f"{place}/rows").collect())
    try:
        compact(spark, f"{place}/rows")
    except PipelineError as error:
        found["compact"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

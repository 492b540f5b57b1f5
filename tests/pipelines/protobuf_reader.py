"""Reads a topic of Protobuf messages, in a process of its own: Spark's functions for them are in a jar of their own.

Takes bootstrap, topic and the descriptor file; prints one line of JSON: the values, or what is missing.
"""

from __future__ import annotations

import json
import sys

from tidelog.pipelines import read_topic, session
from tidelog.pipelines.errors import MissingRequirement
from tidelog.pipelines.formats.protobuf_format import PROTOBUF_PACKAGE


def main(bootstrap: str, topic: str, descriptor: str) -> None:
    try:
        spark = session("local[2]", packages=(PROTOBUF_PACKAGE,), config={"spark.driver.memory": "1g"})
    except MissingRequirement as error:
        print(json.dumps({"missing": str(error)}))
        return
    rows = read_topic(
        spark, topic, bootstrap=bootstrap, value="protobuf", schema=descriptor, message="tidelog.test.Pair"
    ).collect()
    values = [row.value and row.value.asDict() for row in rows]
    spark.stop()
    print(json.dumps({"values": values}))


if __name__ == "__main__":
    main(*sys.argv[1:])

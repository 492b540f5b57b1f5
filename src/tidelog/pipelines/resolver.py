"""Resolves Maven coordinates with Spark's own resolver: `python -m tidelog.pipelines.resolver DIRECTORY COORDINATE...`.

A process of its own, because a JVM that was started to resolve cannot get the jars on its class path any more. Prints
one line of JSON: `{"paths": [...]}` or `{"error": "..."}`. Coordinates are resolved without what they depend on: the
pins name everything that Spark does not bring, and the published dependencies of the connector cannot all be
resolved.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

SETTINGS_VARIABLE = "TIDELOG_IVY_SETTINGS"
REPOSITORIES_VARIABLE = "TIDELOG_MAVEN_REPOSITORIES"


def resolve(directory: str, coordinates: Sequence[str]) -> list[str]:
    """The paths of the fetched jars, all below `directory`."""
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway(SparkConf().set("spark.master", "local[1]"))
    try:
        jvm: Any = gateway.jvm
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        nothing = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
        some = jvm.scala.Option.apply
        output = jvm.java.io.PrintStream(jvm.java.io.ByteArrayOutputStream())
        maven = jvm.org.apache.spark.util.MavenUtils
        repositories = some(os.environ.get(REPOSITORIES_VARIABLE) or None)
        settings_file = os.environ.get(SETTINGS_VARIABLE)
        if settings_file:
            settings = maven.loadIvySettings(settings_file, repositories, some(directory), output)
        else:
            settings = maven.buildIvySettings(repositories, some(directory), True, output)
        found = maven.resolveMavenCoordinates(",".join(coordinates), settings, none, False, nothing, False, output)
        return str(found.mkString(",")).split(",")
    finally:
        gateway.shutdown()


def main(arguments: Sequence[str]) -> int:
    directory, *coordinates = arguments
    try:
        answer: dict[str, Any] = {"paths": resolve(directory, coordinates)}
    except Exception as error:
        answer = {"error": _reason(error)}
    print(json.dumps(answer), flush=True)
    return 1 if "error" in answer else 0


def _reason(error: Exception) -> str:
    """The JVM's own message without its stack."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.getMessage()) if java_exception is not None else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

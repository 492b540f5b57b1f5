"""Resolves Maven coordinates with Spark's own resolver:
`python -m tidelog.pipelines.spark.resolver DIRECTORY COORDINATE...`.

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


CONNECT_TIMEOUT_MS = 5_000
READ_TIMEOUT_MS = 20_000
"""Of one answer, not of a whole jar. Ivy itself would wait without end, and for every jar again."""
_CHAIN = "org.apache.ivy.plugins.resolver.ChainResolver"
_REGISTRY = "org.apache.ivy.plugins.resolver.IBiblioResolver"


class Unresolved(Exception):
    """The jars cannot be had, for a reason in one line."""


def resolve(directory: str, coordinates: Sequence[str]) -> list[str]:
    """The paths of the fetched jars, all below `directory`."""
    from py4j.protocol import Py4JJavaError
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
        limits = jvm.org.apache.ivy.core.settings.NamedTimeoutConstraint("tidelog")
        limits.setConnectionTimeout(CONNECT_TIMEOUT_MS)
        limits.setReadTimeout(READ_TIMEOUT_MS)
        settings.addConfigured(limits)
        silent = leave_out_silent(gateway, settings.getDefaultResolver())
        try:
            found = maven.resolveMavenCoordinates(",".join(coordinates), settings, none, False, nothing, False, output)
        except Py4JJavaError as error:
            raise Unresolved("; ".join([*silent, _reason(error)])) from None
        return str(found.mkString(",")).split(",")
    finally:
        gateway.shutdown()


def leave_out_silent(gateway: Any, resolver: Any) -> list[str]:
    """Takes registries that do not answer out of a chain of resolvers, and says which they were.

    Ivy would ask each of them for each jar. Directories of this machine, and registries that answer, are left.
    """
    from py4j.java_gateway import is_instance_of

    if is_instance_of(gateway, resolver, _CHAIN):
        silent: list[str] = []
        for part in list(resolver.getResolvers()):
            reasons = leave_out_silent(gateway, part)
            if reasons and not is_instance_of(gateway, part, _CHAIN):
                resolver.getResolvers().remove(part)
            silent += reasons
        return silent
    if not is_instance_of(gateway, resolver, _REGISTRY) or not str(resolver.getRoot()).startswith("http"):
        return []
    resolver.setTimeoutConstraint("tidelog")
    resolver.validate()
    reason = why_silent(gateway.jvm, str(resolver.getRoot()))
    return [reason] if reason else []


def why_silent(jvm: Any, root: str) -> str:
    """Why a registry does not answer; empty when it does, whatever the answer is."""
    from py4j.protocol import Py4JJavaError

    connection = jvm.java.net.URI(root).toURL().openConnection()
    connection.setConnectTimeout(CONNECT_TIMEOUT_MS)
    connection.setReadTimeout(CONNECT_TIMEOUT_MS)
    try:
        connection.getResponseCode()
    except Py4JJavaError as error:
        return f"{root} does not answer: {_reason(error)}"
    finally:
        connection.disconnect()
    return ""


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

"""How values are written that are not text, bytes or JSON: Avro and Protobuf, plain or in a schema registry's frame.

Everything is settled before the first row: whether the columns fit the schema, and, with a registry, which schema it
is. One that is given is registered as a version of `<topic>-value` (which the registry answers with its id, also when
it was there); without one the newest version counts, and for Avro, where there is none, that of the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines import protobuf_format
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats import parse_avro_schema
from tidelog.pipelines.registry import newest_version, register

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

VALUE_FORMATS = ("json", "avro", "protobuf", "registry-avro", "registry-protobuf")
Encode = Callable[["Column"], "Column"]
"""A struct column to a binary one; null stays null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """The same arguments as those of `write_topic`."""

    name: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None

    def check(self) -> None:
        if self.name not in VALUE_FORMATS:
            raise PipelineError(f"value_format={self.name!r}: values are written as {', '.join(VALUE_FORMATS)}")
        needs = []
        if self.name in ("avro", "protobuf") and self.schema is None:
            needs.append("schema=")
        if self.name == "protobuf" and self.message is None:
            needs.append("message=")
        if self.name.startswith("registry-") and self.registry is None:
            needs.append("registry=URL")
        if needs:
            raise PipelineError(f"value_format={self.name!r} needs {' and '.join(needs)}")


def value_encoder(spark: SparkSession, wanted: ValueFormat, topic: str, columns: StructType) -> Encode:
    """Encodes values of these columns; PipelineError where they do not fit the schema."""
    if wanted.name == "avro":
        return _avro_encoder(spark, columns, _avro_text(wanted.schema), b"")
    if wanted.name == "protobuf":
        described = protobuf_format.read_descriptor(str(wanted.schema))
        return _protobuf_encoder(spark, columns, described, str(wanted.message), b"")
    subject, registry = f"{topic}-value", str(wanted.registry)
    if wanted.name == "registry-avro":
        return _registered_avro(spark, columns, wanted, registry, subject)
    return _registered_protobuf(spark, columns, wanted, registry, subject)


def _registered_avro(
    spark: SparkSession, columns: StructType, wanted: ValueFormat, registry: str, subject: str
) -> Encode:
    newest = newest_version(registry, subject, "AVRO") if wanted.schema is None else None
    if newest is not None:
        return _avro_encoder(spark, columns, newest.schema, _frame(newest.id))
    schema = _avro_of(spark, columns) if wanted.schema is None else _avro_text(wanted.schema)
    _check_avro(spark, columns, schema)
    return _avro_encoder(spark, columns, schema, _frame(register(registry, subject, schema, "AVRO")))


def _registered_protobuf(
    spark: SparkSession, columns: StructType, wanted: ValueFormat, registry: str, subject: str
) -> Encode:
    from tidelog.pipelines.protobuf_registry import compile_registered, message_paths, path_of, register_message
    from tidelog.pipelines.protobuf_schema import find_message
    from tidelog.pipelines.protobuf_worker import encode_path

    if wanted.schema is not None:
        if wanted.message is None:
            raise PipelineError("value_format='registry-protobuf' with schema= needs message=")
        described, message = protobuf_format.read_descriptor(wanted.schema), wanted.message
        protobuf_format.check_columns(columns, described, message)
        identity, path = register_message(registry, subject, described, message)
    else:
        newest = newest_version(registry, subject, "PROTOBUF")
        if newest is None:
            raise PipelineError(
                f"the schema registry at {registry} has no subject {subject}: give schema= and message="
            )
        described, file = compile_registered(registry, subject, newest)
        paths = message_paths(file)
        message = wanted.message or next(iter(paths.values()))
        identity, path = newest.id, path_of(paths, find_message(described, message))
    return _protobuf_encoder(spark, columns, described, message, _frame(identity) + encode_path(path))


def _frame(identity: int) -> bytes:
    return b"\x00" + identity.to_bytes(4, "big")


def _framed(prefix: bytes, encoded: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat(F.lit(prefix), encoded) if prefix else encoded


def _protobuf_encoder(
    spark: SparkSession, columns: StructType, described: bytes, message: str, prefix: bytes
) -> Encode:
    protobuf_format.check_columns(columns, described, message)
    # Asked here: over Spark Connect batches are written elsewhere, and a session cannot be sent there.
    by_spark = protobuf_format.has_spark_functions(spark)

    def encode(struct: Column) -> Column:
        encoded = protobuf_format.encode_protobuf(struct, columns, described, message, by_spark=by_spark)
        return _framed(prefix, encoded)

    return encode


def _avro_encoder(spark: SparkSession, columns: StructType, schema: str, prefix: bytes) -> Encode:
    from pyspark.sql.avro.functions import to_avro

    _check_avro(spark, columns, schema)
    return lambda struct: _framed(prefix, to_avro(struct, schema))


def _avro_text(schema: str | None) -> str:
    parse_avro_schema(str(schema))
    return str(schema)


def _check_avro(spark: SparkSession, columns: StructType, schema: str) -> None:
    """Makes the serialiser that Spark would only make in the first task. A Spark Connect client cannot ask."""
    jvm: Any = getattr(spark, "_jvm", None) if hasattr(spark, "_jsc") else None
    if jvm is None:
        return
    parsed = _ask_avro(lambda: jvm.org.apache.avro.Schema.Parser().parse(schema))
    _ask_avro(lambda: jvm.org.apache.spark.sql.avro.AvroSerializer(_java_type(jvm, columns), parsed, False))


def _avro_of(spark: SparkSession, columns: StructType) -> str:
    """The Avro schema of columns, as Spark has it."""
    jvm: Any = getattr(spark, "_jvm", None) if hasattr(spark, "_jsc") else None
    if jvm is None:
        raise PipelineError("over Spark Connect value_format='registry-avro' needs schema=, or a registered one")
    converters = jvm.org.apache.spark.sql.avro.SchemaConverters
    found = _ask_avro(lambda: converters.toAvroType(_java_type(jvm, columns), False, "Value", "tidelog"))
    return str(found.toString())


def _java_type(jvm: Any, columns: StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json())


def _ask_avro(question: Callable[[], Any]) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return question()
    except Py4JJavaError as error:
        deepest = error.java_exception
        while (cause := deepest.getCause()) is not None:
            deepest = cause
        reason = str(deepest.getMessage())
    except PySparkException as error:
        reason = str(error)
    raise PipelineError(f"the columns do not fit the Avro schema: {' '.join(reason.split())[:500]}")

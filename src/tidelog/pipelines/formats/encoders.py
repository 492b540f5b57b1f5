"""How keys and values are written that are not text, bytes or JSON: Avro and Protobuf, plain or in a registry's frame.

Everything is settled before the first row: whether the columns fit the schema, and, with a registry, which schema it
is. One that is given is registered as a version of `<topic>-key` or `<topic>-value` (which the registry answers with
its id, also when it was there); without one the newest version counts, and for Avro, where there is none, that of the
columns. Rows go where the bytes of their keys say, so a sink that is exactly once keeps the schema of its keys
(`KeyEncoding`) and writes by that one, however new the newest is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery.sink_state import KeyEncoding
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats import protobuf_format
from tidelog.pipelines.formats.decoders import avro_text, parse_avro_schema
from tidelog.pipelines.formats.registry import Registered, newest_version, register, schema_by_id

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructField

WRITTEN_FORMATS = ("json", "avro", "protobuf", "registry-avro", "registry-protobuf")
Encode = Callable[["Column"], "Column"]
"""A column to a binary one; null stays null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """How keys or values are written, by the arguments of `write_topic`."""

    name: str
    """key or value."""
    format: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None

    def argument(self, name: str) -> str:
        return f"key_{name}=" if self.name == "key" else f"{name}="

    def check(self) -> None:
        given = f"{self.name}_format={self.format!r}"
        if self.format not in WRITTEN_FORMATS:
            raise PipelineError(f"{given}: {self.name}s are written as {', '.join(WRITTEN_FORMATS)}")
        needs = []
        if self.format in ("avro", "protobuf") and self.schema is None:
            needs.append(self.argument("schema"))
        if self.format == "protobuf" and self.message is None:
            needs.append(self.argument("message"))
        if self.format.startswith("registry-") and self.registry is None:
            needs.append("registry=URL")
        if needs:
            raise PipelineError(f"{given} needs {' and '.join(needs)}")

    def kept_id(self, kept: KeyEncoding | None) -> int | None:
        """The schema that keys were written by until now."""
        if kept is None or kept.format != self.format or not kept.schema.isdigit():
            return None
        return int(kept.schema)


def part_encoder(
    spark: SparkSession, part: WrittenPart, topic: str, column: StructField, kept: KeyEncoding | None = None
) -> tuple[Encode, KeyEncoding]:
    """Encodes such a column, and what the bytes depend on; PipelineError where it does not fit the schema."""
    if part.format == "avro":
        schema = _avro_text(part.schema)
        return _avro_encoder(spark, part, column, schema, b""), _keeping(part, _digest(parse_avro_schema(schema)))
    if part.format == "protobuf":
        from tidelog.pipelines.formats.protobuf_schema import find_message, message_layout

        described, message = protobuf_format.read_descriptor(str(part.schema)), str(part.message)
        encode = _protobuf_encoder(spark, column, described, message, b"")
        return encode, _keeping(part, _digest(message_layout(find_message(described, message))), message)
    subject = f"{topic}-{part.name}"
    if part.format == "registry-avro":
        return _registered_avro(spark, part, column, subject, kept)
    return _registered_protobuf(spark, part, column, subject, kept)


def _keeping(part: WrittenPart, schema: str, message: str = "") -> KeyEncoding:
    return KeyEncoding(format=part.format, schema=schema, message=message)


def _digest(schema: object) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()}"


def _known(part: WrittenPart, subject: str, kind: str, kept: KeyEncoding | None) -> Registered | None:
    """The schema in the registry that counts when none is given."""
    registry, identity = str(part.registry), part.kept_id(kept)
    if identity is not None:
        return schema_by_id(registry, identity, kind)
    return newest_version(registry, subject, kind)


def _registered_avro(
    spark: SparkSession, part: WrittenPart, column: StructField, subject: str, kept: KeyEncoding | None
) -> tuple[Encode, KeyEncoding]:
    found = _known(part, subject, "AVRO", kept) if part.schema is None else None
    if found is not None:
        schema, identity = found.schema, found.id
    else:
        schema = _avro_of(spark, part, column) if part.schema is None else _avro_text(part.schema)
        _avro_encoder(spark, part, column, schema, b"")
        identity = register(str(part.registry), subject, schema, "AVRO")
    return _avro_encoder(spark, part, column, schema, _frame(identity)), _keeping(part, str(identity))


def _registered_protobuf(
    spark: SparkSession, part: WrittenPart, column: StructField, subject: str, kept: KeyEncoding | None
) -> tuple[Encode, KeyEncoding]:
    from tidelog.pipelines.formats.protobuf_registry import compile_registered, message_paths, path_of, register_message
    from tidelog.pipelines.formats.protobuf_schema import find_message
    from tidelog.pipelines.formats.protobuf_worker import encode_path

    registry = str(part.registry)
    if part.schema is not None:
        if part.message is None:
            given = f"{part.name}_format='registry-protobuf' with {part.argument('schema')}"
            raise PipelineError(f"{given} needs {part.argument('message')}")
        described, message = protobuf_format.read_descriptor(part.schema), part.message
        _protobuf_encoder(spark, column, described, message, b"")
        identity, path = register_message(registry, subject, described, message)
    else:
        found = _known(part, subject, "PROTOBUF", kept)
        if found is None:
            needed = f"give {part.argument('schema')} and {part.argument('message')}"
            raise PipelineError(f"the schema registry at {registry} has no subject {subject}: {needed}")
        described, file = compile_registered(registry, subject, found)
        paths = message_paths(file)
        usual = kept.message if kept is not None and part.kept_id(kept) is not None else next(iter(paths.values()))
        message = part.message or usual
        identity, path = found.id, path_of(paths, find_message(described, message))
    encode = _protobuf_encoder(spark, column, described, message, _frame(identity) + encode_path(path))
    return encode, _keeping(part, str(identity), message)


def _frame(identity: int) -> bytes:
    return b"\x00" + identity.to_bytes(4, "big")


def _framed(prefix: bytes, encoded: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat(F.lit(prefix), encoded) if prefix else encoded


def _arranged(column: StructField, *, has_fields: bool) -> tuple[DataType, Encode]:
    """A single value as the one field of a record, where the schema is of a record."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    if not has_fields or isinstance(column.dataType, StructType):
        return column.dataType, lambda found: found
    name = column.name
    return StructType([column]), lambda found: F.when(found.isNotNull(), F.struct(found.alias(name)))


def _protobuf_encoder(
    spark: SparkSession, column: StructField, described: bytes, message: str, prefix: bytes
) -> Encode:
    from pyspark.sql.types import StructType

    columns, arrange = _arranged(column, has_fields=True)
    assert isinstance(columns, StructType)
    protobuf_format.check_columns(columns, described, message)
    # Asked here: over Spark Connect batches are written elsewhere, and a session cannot be sent there.
    by_spark = protobuf_format.has_spark_functions(spark)

    def encode(found: Column) -> Column:
        encoded = protobuf_format.encode_protobuf(arrange(found), columns, described, message, by_spark=by_spark)
        return _framed(prefix, encoded)

    return encode


def _avro_encoder(spark: SparkSession, part: WrittenPart, column: StructField, schema: str, prefix: bytes) -> Encode:
    from pyspark.sql.avro.functions import to_avro

    kind, arrange = _arranged(column, has_fields=parse_avro_schema(schema)["type"] == "record")
    _check_avro(spark, part, kind, schema)
    return lambda found: _framed(prefix, to_avro(arrange(found), schema))


def _avro_text(schema: str | None) -> str:
    parse_avro_schema(str(schema))
    return avro_text(str(schema))


def _check_avro(spark: SparkSession, part: WrittenPart, kind: DataType, schema: str) -> None:
    """Makes the serialiser that Spark would only make in the first task. A Spark Connect client cannot ask."""
    jvm: Any = getattr(spark, "_jvm", None) if hasattr(spark, "_jsc") else None
    if jvm is None:
        return
    parsed = _ask_avro(part, lambda: jvm.org.apache.avro.Schema.Parser().parse(schema))
    _ask_avro(part, lambda: jvm.org.apache.spark.sql.avro.AvroSerializer(_java_type(jvm, kind), parsed, False))


def _avro_of(spark: SparkSession, part: WrittenPart, column: StructField) -> str:
    """The Avro schema of a column, as Spark has it."""
    jvm: Any = getattr(spark, "_jvm", None) if hasattr(spark, "_jsc") else None
    if jvm is None:
        given = f"{part.name}_format='registry-avro'"
        raise PipelineError(f"over Spark Connect {given} needs {part.argument('schema')}, or a registered one")
    converters, name = jvm.org.apache.spark.sql.avro.SchemaConverters, part.name.capitalize()
    kind = _java_type(jvm, column.dataType)
    return str(_ask_avro(part, lambda: converters.toAvroType(kind, False, name, "tidelog")).toString())


def _java_type(jvm: Any, kind: DataType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json())


def _ask_avro(part: WrittenPart, ask: Callable[[], Any]) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return ask()
    except Py4JJavaError as error:
        deepest = error.java_exception
        while (cause := deepest.getCause()) is not None:
            deepest = cause
        reason = str(deepest.getMessage())
    except PySparkException as error:
        reason = str(error)
    what = "the columns of the key" if part.name == "key" else "the columns"
    raise PipelineError(f"{what} do not fit the Avro schema: {' '.join(reason.split())[:500]}")

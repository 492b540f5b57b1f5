"""Formats of keys and values: bytes to a column, with a reason where the bytes do not fit.

A decoder works in two steps, so that nothing is parsed twice: `parsed` is an expression over the binary column,
`value` and `reason` are expressions over that column and the one `parsed` was put into. The reason is null for a
record that is fine; a null record is null and fine. All here is Spark's own functions, so parsing stays in the JVM;
Protobuf is in `protobuf_format`.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FORMATS = ("bytes", "text", "json", "csv", "avro", "protobuf", "registry-avro", "registry-protobuf")
PARSED = "__tidelog_parsed"
"""The column that holds what was parsed, until value and reason are taken from it."""
_CORRUPT = "__tidelog_corrupt"
_READ = "__tidelog_read"
_AVRO_SIMPLE = ("string", "bytes", "int", "long", "float", "double", "boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Three expressions: the first over the binary column, the others over it and the column PARSED."""

    parsed: Column
    value: Column
    reason: Column | None
    """Null where the record is fine; None for a format that takes any bytes."""


def with_parsed(df: DataFrame, decoded: Decoded) -> DataFrame:
    """The frame with the column PARSED; PipelineError when Spark cannot parse such a format at all."""
    from pyspark.errors import AnalysisException

    try:
        return df.withColumn(PARSED, decoded.parsed)
    except AnalysisException as error:
        raise PipelineError(str(error).strip().partition("\n")[0]) from None


def check_format(name: str, role: str) -> None:
    if name not in FORMATS:
        raise PipelineError(f"{role}={name!r}: the formats are {', '.join(FORMATS)}")


def decode_bytes(data: Column) -> Decoded:
    from pyspark.sql import functions as F  # noqa: N812

    return Decoded(parsed=data, value=F.col(PARSED), reason=None)


def decode_text(data: Column) -> Decoded:
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col(PARSED)
    reason = F.when(text.isNotNull() & ~F.is_valid_utf8(text), "not UTF-8")
    return Decoded(parsed=data.cast("string"), value=text, reason=reason)


def decode_json(data: Column, schema: StructType) -> Decoded:
    """A JSON object per record. What follows the object, a missing brace and a field of another type are all bad.

    Spark's parser stops after the first object and would drop what follows without a word. So the record becomes the
    first of two elements of an array, and the second is a mark: only a record that is one whole element leaves two
    elements, with the mark in its place. A record that knew the names could bring a mark of its own, so they are made
    by chance, newly for every frame. They are short because every record pays for them.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, ByteType, StructField, StructType

    records, mark = f"r{secrets.token_hex(4)}", f"m{secrets.token_hex(4)}"
    text = data.cast("string")
    wrapped = F.concat(F.lit(f'{{"{records}":['), text, F.lit(f',{{"{mark}":1}}]}}'))
    element = StructType([*schema.fields, StructField(mark, ByteType())])
    shape = _with_corrupt(StructType([StructField(records, ArrayType(element))]))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    unfit = F.when(F.try_parse_json(wrapped).isNull(), "not JSON").otherwise(f"does not fit the schema {ddl(schema)}")
    elements = F.col(PARSED)[records]
    first, second = F.get(elements, F.lit(0)), F.get(elements, F.lit(1))
    reason = (
        F.when(data.isNull(), None)
        .when(~F.is_valid_utf8(text), "not UTF-8")
        .when(F.col(PARSED)[_CORRUPT].isNotNull(), unfit)
        .when((F.size(elements) != 2) | second[mark].isNull(), "not JSON")
        .when(first.isNull(), "not a JSON object")
    )
    return Decoded(parsed=F.from_json(wrapped, shape, options), value=first.dropFields(mark), reason=reason)


def decode_csv(data: Column, schema: StructType) -> Decoded:
    """One line per record, without a header."""
    from pyspark.sql import functions as F  # noqa: N812

    text = data.cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.col(PARSED)
    reason = (
        F.when(data.isNull(), None)
        .when(~F.is_valid_utf8(text), "not UTF-8")
        .when(F.trim(text) == "", "an empty line")
        .when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), f"not CSV of the schema {ddl(schema)}")
    )
    return Decoded(
        parsed=F.from_csv(text, ddl(_with_corrupt(schema)), options),
        value=F.when(data.isNotNull(), parsed.dropFields(_CORRUPT)),
        reason=reason,
    )


def decode_avro(data: Column, writer: str) -> Decoded:
    """Avro without a container; the result has the writer's schema."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = parse_avro_schema(writer)
    return _decoded_avro(
        data, wanted, _from_avro(data, avro_text(writer), wanted), F.lit(f"not Avro of the schema {_name(wanted)}")
    )


def decode_registry_avro(data: Column, writers: dict[int, str], reader: str, subject: str) -> Decoded:
    """The schema registry's framing: a zero byte, the schema's id in four bytes, Avro.

    `writers` are the schemas of the subject by id; the result has the schema `reader`. An id above all of them may have
    been registered after the query was started: that stops the query, and a restart knows it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    wanted = parse_avro_schema(reader)
    is_framed = (F.length(data) >= 5) & (F.hex(F.substring(data, 1, 1)) == "00")
    identity = F.when(is_framed, F.conv(F.hex(F.substring(data, 2, 4)), 16, 10).cast("bigint"))
    payload = F.substring(data, 6, 2**31 - 1)
    parsed: Any = None
    for known, writer in sorted(writers.items()):
        read = _from_avro(payload, writer, wanted)
        parsed = F.when(identity == known, read) if parsed is None else parsed.when(identity == known, read)
    newer = f"schema id %d is newer than the versions of {subject} known when the query was started: restart it"
    cause = (
        F.when(~is_framed, "not framed for a schema registry")
        .when(identity > max(writers), F.raise_error(F.format_string(newer, identity)).cast("string"))
        .when(~identity.isin(*writers), F.format_string(f"schema id %d is not one of subject {subject}", identity))
        .otherwise(f"not Avro of the schema {_name(wanted)}")
    )
    return _decoded_avro(data, wanted, parsed, cause)


def _from_avro(data: Column, writer: str, wanted: dict[str, Any]) -> Column:
    """Spark answers bytes it cannot read with a struct of nulls, which a record may be too.

    A field that only the reader's schema has, with a default, is there after every success and null after every
    failure.
    """
    from pyspark.sql.avro.functions import from_avro

    if wanted["type"] == "record":
        mark = {"name": _READ, "type": "boolean", "default": True}
        wanted = {**wanted, "fields": [*wanted["fields"], mark]}
    return from_avro(data, writer, {"mode": "PERMISSIVE", "avroSchema": json.dumps(wanted)})


def _decoded_avro(data: Column, wanted: dict[str, Any], parsed: Column, cause: Column) -> Decoded:
    from pyspark.sql import functions as F  # noqa: N812

    read = F.col(PARSED)
    if wanted["type"] != "record":
        return Decoded(parsed=parsed, value=read, reason=F.when(data.isNotNull() & read.isNull(), cause))
    return Decoded(
        parsed=parsed,
        value=F.when(data.isNotNull(), read.dropFields(_READ)),
        reason=F.when(data.isNotNull() & read[_READ].isNull(), cause),
    )


def _name(avro_schema: dict[str, Any]) -> str:
    return str(avro_schema.get("name", avro_schema["type"]))


def struct_schema(schema: StructType | str, role: str) -> StructType:
    """A schema given as DDL text or as a type."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    if isinstance(schema, StructType):
        return schema
    try:
        parsed = _parse_datatype_string(schema)
    except Exception as error:
        raise PipelineError(f"{role} schema {schema!r}: {str(error).strip().splitlines()[0]}") from None
    if not isinstance(parsed, StructType):
        raise PipelineError(f"{role} schema {schema!r}: name the fields, like 'id BIGINT, amount DOUBLE'")
    return parsed


def ddl(schema: StructType) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)


def avro_text(text: str) -> str:
    """An Avro schema as JSON; a simple type may be given by its bare name, as the schema of a key often is."""
    return json.dumps(text.strip()) if text.strip() in _AVRO_SIMPLE else text


def parse_avro_schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(avro_text(text))
    except ValueError as error:
        raise PipelineError(f"the Avro schema is not JSON: {error}") from None
    if isinstance(schema, str):
        return {"type": schema}
    if not isinstance(schema, dict) or "type" not in schema:
        raise PipelineError("the Avro schema is no record or single type")
    return schema


def _with_corrupt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*schema.fields, StructField(_CORRUPT, StringType())])

"""Protobuf in frames of Spark: by Spark's own functions where their jar is in the session, else by Python workers.

Both have the same columns and answer the same bytes in the same way; a session need not know which it is. The
framing of a schema registry is always opened and made here, since Spark has no function for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.pipelines.errors import MissingRequirement, PipelineError
from tidelog.pipelines.formats.column_types import follows
from tidelog.pipelines.formats.decoders import PARSED, Decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructType

    from tidelog.pipelines.formats.protobuf_worker import Writers

PROTOBUF_PACKAGE = "org.apache.spark:spark-protobuf_2.13:4.1.3"
"""Spark's Protobuf functions: a jar of their own, which a session has when it is asked for."""
DECODER = "tidelog_from_protobuf"
"""Name of the Python function that reads messages, in Spark's plans."""
ENCODER = "tidelog_to_protobuf"
_NATIVE = {"mode": "PERMISSIVE", "emit.default.values": "true"}


def read_descriptor(path: str) -> bytes:
    """A descriptor file (`protoc --include_imports --descriptor_set_out`)."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PipelineError(f"the Protobuf descriptor {path} cannot be read: {error}") from None


def has_spark_functions(spark: SparkSession) -> bool:
    """Whether the session has Spark's Protobuf functions; asked by using one, which works over Spark Connect too."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.protobuf.functions import from_protobuf

    try:
        _ = spark.range(0).select(from_protobuf(F.lit(b""), "none", binaryDescriptorSet=b"")).schema
    except Exception as error:
        return "PROTOBUF_NOT_LOADED" not in str(error)
    return True


def decode_protobuf(spark: SparkSession, data: Column, described: bytes, message: str) -> Decoded:
    """A message of a descriptor set. Fields without presence that were left out have their default."""
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.pipelines.formats.protobuf_worker import message_reader

    columns = _columns(described, message)
    if not has_spark_functions(spark):
        return _by_worker(data, columns, message_reader(described, message))
    from pyspark.sql.protobuf.functions import from_protobuf

    # Spark answers bytes it cannot read with null.
    return Decoded(
        parsed=from_protobuf(data, message, binaryDescriptorSet=described, options=_NATIVE),
        value=F.col(PARSED),
        reason=F.when(data.isNotNull() & F.col(PARSED).isNull(), f"not Protobuf of the message {message}"),
    )


def decode_framed_protobuf(data: Column, described: bytes, message: str, writers: Writers, subject: str) -> Decoded:
    """Messages in the framing of a schema registry, read as the message of one descriptor set."""
    from tidelog.pipelines.formats.protobuf_worker import frame_reader

    return _by_worker(data, _columns(described, message), frame_reader(described, message, writers, subject))


def encode_protobuf(struct: Column, given: StructType, described: bytes, message: str, *, by_spark: bool) -> Column:
    """A struct column as messages; null stays null. PipelineError for columns that the message has not."""
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.pipelines.formats.protobuf_worker import message_writer

    wanted = check_columns(given, described, message)
    fitted = struct if given == wanted else struct.cast(wanted)
    if by_spark:
        from pyspark.sql.protobuf.functions import to_protobuf

        return to_protobuf(fitted, message, binaryDescriptorSet=described)
    write = message_writer(described, message)
    write.__name__ = ENCODER
    return F.arrow_udf(write, "binary")(fitted)


def check_columns(given: StructType, described: bytes, message: str) -> DataType:
    """The type that a struct column is cast to; PipelineError for what the message has no place for."""
    return _fitting_type(given, _columns(described, message), f"the Protobuf message {message}")


def _columns(described: bytes, message: str) -> StructType:
    try:
        from tidelog.pipelines.formats.protobuf_schema import find_message, message_columns
    except ImportError as error:
        raise MissingRequirement(f"Protobuf needs the package protobuf ({error}); pip install protobuf") from None
    return message_columns(find_message(described, message))


def _by_worker(data: Column, columns: StructType, read: Callable[..., object]) -> Decoded:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    read.__name__ = DECODER
    shape = StructType([StructField("value", columns), StructField("reason", StringType())])
    # Not deterministic: Spark would otherwise read once for the value and once more for the reason.
    parse = F.arrow_udf(read, shape).asNondeterministic()
    return Decoded(parsed=parse(data), value=F.col(PARSED)["value"], reason=F.col(PARSED)["reason"])


def _fitting_type(given: DataType, wanted: DataType, place: str) -> DataType:
    """The type `given` with every value as wide as `wanted` has it; PipelineError where it has no place for one."""
    from pyspark.sql.types import ArrayType, DayTimeIntervalType, MapType, StructField, StructType

    if isinstance(given, StructType) and isinstance(wanted, StructType):
        known = {field.name: field.dataType for field in wanted.fields}
        absent = [field.name for field in given.fields if field.name not in known]
        if absent:
            raise PipelineError(f"{place} has no field {', '.join(absent)}; it has {', '.join(known)}")
        return StructType(
            [
                StructField(
                    field.name, _fitting_type(field.dataType, known[field.name], f"field {field.name} of {place}")
                )
                for field in given.fields
            ]
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return ArrayType(_fitting_type(given.elementType, wanted.elementType, place))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key = _fitting_type(given.keyType, wanted.keyType, place)
        return MapType(key, _fitting_type(given.valueType, wanted.valueType, place))
    are_intervals = isinstance(given, DayTimeIntervalType) and isinstance(wanted, DayTimeIntervalType)
    if not are_intervals and not follows(wanted, given, widens=True):
        raise PipelineError(f"{place} is {wanted.simpleString()}, not {given.simpleString()}: cast the column")
    return wanted

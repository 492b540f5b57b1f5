"""Columns of a frame to the columns of a record: key, value, headers, timestamp, and the partition it goes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidelog.pipelines.formats.encoders import Encode

HEADERS = "array<struct<key:string,value:binary>>"
PARTITION = "__tidelog_partition"
ENCODED_KEY = "__tidelog_encoded_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordShape:
    """Which columns become what; the same arguments as `write_topic`."""

    key: str | Column | Sequence[str] | None
    value: str | Column | Sequence[str] | None
    headers: str | Column | Mapping[str, str] | None
    timestamp: str | Column | None
    partition: str | Column | None
    order_by: Sequence[str] | None
    encode: Encode | None = None
    """Makes a value, where it is neither text, bytes nor JSON."""
    encode_key: Encode | None = None


def with_encoded_keys(df: DataFrame, shape: RecordShape) -> tuple[DataFrame, RecordShape]:
    """The same with keys that are encoded in a step of their own: they are needed twice, for the partition too."""
    if shape.encode_key is None:
        return df, shape
    return df.withColumn(ENCODED_KEY, key_column(df, shape)), replace(shape, key=ENCODED_KEY, encode_key=None)


def key_column(df: DataFrame, shape: RecordShape) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if shape.encode_key is not None:
        return shape.encode_key(key_object(df, shape))
    if shape.key is None and "key" not in df.columns:
        return F.lit(None).cast("binary")
    return _bytes(df, _key_columns(shape), "key")


def key_object(df: DataFrame, shape: RecordShape) -> Column:
    """What becomes a key before it is encoded: one column as it is, or several as a struct."""
    if shape.key is None and "key" not in df.columns:
        raise PipelineError(f"key: no column is named to be encoded, and there is no column key in {_names(df)}")
    return _object(df, _key_columns(shape), "key")


def value_column(df: DataFrame, shape: RecordShape) -> Column:
    """By default the column `value`; else the row as one object, without what became the key or a header."""
    if shape.encode is not None:
        return shape.encode(value_object(df, shape))
    return _plain_value(df, shape)


def value_object(df: DataFrame, shape: RecordShape) -> Column:
    """What becomes a value before it is encoded: one column as it is, or several as a struct."""
    return _object(df, _value_columns(df, shape), "value")


def _key_columns(shape: RecordShape) -> str | Column | Sequence[str]:
    return "key" if shape.key is None else shape.key


def _object(df: DataFrame, columns: str | Column | Sequence[str], role: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(columns, list | tuple):
        return _named(df, columns, role)
    parts = [_named(df, name, role) for name in columns]
    if not parts:
        raise PipelineError(f"{role}: no column is named")
    return F.struct(*parts)


def _names(df: DataFrame) -> str:
    return ", ".join(df.columns)


def _plain_value(df: DataFrame, shape: RecordShape) -> Column:
    return _bytes(df, _value_columns(df, shape), "value")


def _value_columns(df: DataFrame, shape: RecordShape) -> str | Column | Sequence[str]:
    if shape.value is not None:
        return shape.value
    others = ("key", "headers", ENCODED_KEY)
    return "value" if "value" in df.columns else [name for name in df.columns if name not in others]


def headers_column(df: DataFrame, shape: RecordShape) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(shape.headers, Mapping):
        fixed = [
            F.struct(F.lit(name).alias("key"), F.lit(text).cast("binary").alias("value"))
            for name, text in shape.headers.items()
        ]
        return F.array(*fixed).cast(HEADERS) if fixed else None
    if shape.headers is None:
        return F.col("headers").cast(HEADERS) if "headers" in df.columns else None
    column = _named(df, shape.headers, "headers")
    return column.cast(HEADERS)


def timestamp_column(df: DataFrame, shape: RecordShape) -> Column | None:
    """Milliseconds since 1970."""
    from pyspark.sql import functions as F  # noqa: N812

    if shape.timestamp is None:
        return None
    return F.unix_millis(_named(df, shape.timestamp, "timestamp").cast("timestamp"))


def order_columns(df: DataFrame, shape: RecordShape) -> list[str]:
    """What rows of a target partition are sorted by: a shuffle brings them together in any order."""
    if shape.order_by is not None:
        absent = [name for name in shape.order_by if name not in df.columns]
        if absent:
            raise PipelineError(f"order_by: no column {', '.join(absent)} in {_names(df)}")
        return list(shape.order_by)
    origin = ["topic", "partition", "offset"]
    return origin if all(name in df.columns for name in origin) else []


def partition_column(df: DataFrame, shape: RecordShape, partitioner: str, partitions: int) -> Column:
    """The partition of a row: named, or from its key, or from its value where there is no key; the same every time."""
    from pyspark.sql import functions as F  # noqa: N812

    if shape.partition is not None:
        named = _named(df, shape.partition, "partition").cast("int")
        wrong = F.format_string(f"partition %d of a row is not one of 0 to {partitions - 1}", named)
        return F.when(named.between(0, partitions - 1), named).otherwise(F.raise_error(wrong).cast("int"))
    if partitions == 1:
        return F.lit(0)
    keyed = keyed_partition(key_column(df, shape), partitioner, partitions)
    return F.coalesce(keyed, _spread(df, shape, partitions))


def partition_but_hash(df: DataFrame, shape: RecordShape, partitioner: str, partitions: int) -> Column:
    """The same, but null where it takes a hash that Spark lacks: for a writer that can compute it itself."""
    from pyspark.sql import functions as F  # noqa: N812

    if shape.partition is not None or partitions == 1 or partitioner == "crc32":
        return partition_column(df, shape, partitioner, partitions)
    return F.when(key_column(df, shape).isNull(), _spread(df, shape, partitions))


def keyed_partition(key: Column, partitioner: str, partitions: int) -> Column:
    """Null where there is no key."""
    from pyspark.sql import functions as F  # noqa: N812

    if partitioner == "crc32":
        return (F.crc32(key) % partitions).cast("int")
    hashed = F.arrow_udf(_hasher(partitioner, partitions), "int")
    return F.when(key.isNotNull(), hashed(key))


def _spread(df: DataFrame, shape: RecordShape, partitions: int) -> Column:
    """The partition of a row without a key. Not from an encoded value: a batch that runs again may find a newer schema
    in its registry, and its rows must go where they went."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(F.xxhash64(_plain_value(df, shape)), F.lit(partitions)).cast("int")


def _hasher(partitioner: str, partitions: int) -> Callable[[Any], Any]:
    import pyarrow as pa

    from tidelog.pipelines.delivery.partitioners import partition_of

    def assign(keys: pa.Array) -> pa.Array:
        return partition_of(keys, partitioner, partitions)

    assign.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    return assign


def _named(df: DataFrame, column: str | Column, role: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(column, str):
        return column
    if column not in df.columns:
        raise PipelineError(f"{role}: no column {column} in {_names(df)}")
    return F.col(f"`{column}`")


def _bytes(df: DataFrame, columns: str | Column | Sequence[str], role: str) -> Column:
    """Text and bytes as they are, everything else as JSON; several columns are one JSON object."""
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(columns, list | tuple):
        return F.to_json(_object(df, columns, role), {"ignoreNullFields": "false"}).cast("binary")
    column = _named(df, columns, role)
    kind = df.select(column.alias("c")).schema["c"].dataType.typeName()
    if kind in ("binary", "string", "void"):
        return column.cast("binary")
    if kind in ("struct", "array", "map", "variant"):
        return F.to_json(column, {"ignoreNullFields": "false"} if kind == "struct" else {}).cast("binary")
    return column.cast("string").cast("binary")

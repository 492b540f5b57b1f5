"""Schema evolution of Delta and Iceberg tables: columns that a frame has and the table lacks are added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_columns(df: DataFrame, table: str) -> None:
    """`table` is the name that SQL knows it by."""
    spark = df.sparkSession
    present = {name.lower() for name in spark.sql(f"SELECT * FROM {table} LIMIT 0").columns}
    added = [field for field in df.schema.fields if field.name.lower() not in present]
    if added:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in added)
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns})")

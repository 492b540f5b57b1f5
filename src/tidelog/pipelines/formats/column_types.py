"""Which changes of a column's type a table can follow, judged before a row is written.

Columns that are new are no change. A Parquet directory follows nothing else: a file with another type would make the
whole table unreadable. Delta and Iceberg also take a narrower number for a wider one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WIDER = ("tinyint", "smallint", "int", "bigint"), ("float", "double")


def check_types(path: str, table: StructType, frame: StructType, *, widens: bool) -> None:
    """Raises PipelineError for the first column of a frame that has another type in the table."""
    known = {field.name.lower(): field.dataType for field in table.fields}
    for field in frame.fields:
        old = known.get(field.name.lower())
        if old is not None and not follows(old, field.dataType, widens):
            kinds = f"{old.simpleString()}, not {field.dataType.simpleString()}"
            advice = "cast it, give it another name, or write another table"
            raise PipelineError(f"column {field.name} of {path} is {kinds}; {advice}")


def follows(old: Any, new: Any, widens: bool) -> bool:
    """Whether values of the type `new` can go where those of `old` are."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    if isinstance(new, NullType):
        return True
    if isinstance(old, StructType) and isinstance(new, StructType):
        fields = {field.name.lower(): field.dataType for field in old.fields}
        shared = [(fields[field.name.lower()], field.dataType) for field in new.fields if field.name.lower() in fields]
        return all(follows(*pair, widens) for pair in shared)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return follows(old.elementType, new.elementType, widens)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return follows(old.keyType, new.keyType, widens) and follows(old.valueType, new.valueType, widens)
    kinds = (old.simpleString(), new.simpleString())
    if kinds[0] == kinds[1]:
        return True
    ranks = [family.index(kinds[0]) - family.index(kinds[1]) for family in _WIDER if set(kinds) <= set(family)]
    return widens and bool(ranks) and ranks[0] > 0

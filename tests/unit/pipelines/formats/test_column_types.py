"""What a table can follow when the type of a column changes."""

from __future__ import annotations

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats.column_types import check_types

pytest.importorskip("pyspark")
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)


def row(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])


def follows(old: DataType, new: DataType, *, widens: bool) -> bool:
    try:
        check_types("/lake/t", row(("key", StringType()), ("n", old)), row(("N", new)), widens=widens)
    except PipelineError as error:
        return not str(error).startswith(f"column N of /lake/t is {old.simpleString()}, not {new.simpleString()}; cast")
    return True


@pytest.mark.parametrize("widens", [False, True])
def test_types_that_fit_always(widens: bool) -> None:
    inner = row(("a", LongType()))
    grown = row(("a", LongType()), ("b", StringType()))
    same: list[tuple[DataType, DataType]] = [
        (LongType(), LongType()),
        (LongType(), NullType()),
        (inner, grown),
        (grown, inner),
        (ArrayType(inner), ArrayType(grown)),
        (MapType(StringType(), inner), MapType(StringType(), grown)),
    ]
    assert all(follows(old, new, widens=widens) for old, new in same)


@pytest.mark.parametrize("widens", [False, True])
def test_types_that_never_fit(widens: bool) -> None:
    other: list[tuple[DataType, DataType]] = [
        (LongType(), StringType()),
        (IntegerType(), LongType()),
        (LongType(), DoubleType()),
        (row(("a", LongType())), row(("a", StringType()))),
        (row(("a", LongType())), LongType()),
        (ArrayType(LongType()), ArrayType(StringType())),
        (MapType(StringType(), LongType()), MapType(LongType(), LongType())),
    ]
    assert not any(follows(old, new, widens=widens) for old, new in other)


def test_a_narrower_number_fits_where_the_format_widens_it() -> None:
    assert follows(LongType(), IntegerType(), widens=True)
    assert not follows(LongType(), IntegerType(), widens=False)
    assert follows(row(("a", LongType())), row(("a", IntegerType())), widens=True)


def test_a_new_column_is_no_change() -> None:
    check_types("/lake/t", row(("a", LongType())), row(("b", StringType())), widens=False)

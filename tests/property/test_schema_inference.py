"""Whatever objects a topic holds, each of them can be read with the schema that was found in them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelog.pipelines.spec.inference import (
    DEPTH_MAX,
    Array,
    Simple,
    Struct,
    Type,
    fields_of,
    infer,
    infer_type,
    is_map,
    is_timestamp,
    merge,
    parse_object,
    to_ddl,
)
from tidelog.pipelines.spec.sql_types import find_unknown_type

NAMES = st.sampled_from(["id", "Id", "at", "a b", "a`b", "", "${X}", "order", "not"]) | st.text(max_size=4)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.datetimes().map(lambda moment: moment.isoformat())
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
OBJECTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=6)


def takes(type_: Type, value: Any, depth: int = 0) -> bool:
    """Whether Spark's strict reader of JSON takes a value for a type."""
    if value is None:
        return True
    match type_:
        case Simple("STRING"):
            return True
        case Simple("BOOLEAN"):
            return isinstance(value, bool)
        case Simple("BIGINT"):
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case Simple("DECIMAL", digits):
            return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**digits
        case Simple("DOUBLE"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Simple("TIMESTAMP"):
            return isinstance(value, str) and is_timestamp(value)
        case Array(element):
            return isinstance(value, list) and all(takes(element, item, depth + 1) for item in value)
        case Struct():
            if not isinstance(value, dict) or depth > DEPTH_MAX:
                return False
            if is_map(type_):
                return all(takes(type_.fields[name][0], item, depth + 1) for name, item in value.items())
            fields, _ = fields_of(type_)
            # One without fields is written as STRING.
            return all(takes(fields[name], item, depth + 1) for name, item in value.items() if name in fields)
    return False


@given(OBJECTS)
def test_every_object_can_be_read_with_the_schema(objects: list[dict[str, Any]]) -> None:
    read = [parse_object(json.dumps(value)) for value in objects]
    assert all(value is not None for value in read)
    schema = infer(value for value in read if value is not None)
    assert schema == infer(objects)
    for value in objects:
        assert takes(schema, value)


@given(OBJECTS)
def test_the_schema_is_one_that_can_be_written(objects: list[dict[str, Any]]) -> None:
    fields, names = fields_of(infer(objects))
    assert {*fields, *names} == {name for value in objects for name in value}
    assert len({name.lower() for name in fields}) == len(fields)
    for type_ in fields.values():
        ddl = to_ddl(type_)
        assert ddl.isprintable()
        assert find_unknown_type(f"f {ddl}") is None


@given(st.tuples(VALUES, VALUES, VALUES))
def test_the_order_of_records_changes_nothing(values: tuple[Any, Any, Any]) -> None:
    one, two, three = (infer_type(value) for value in values)
    assert merge(merge(one, two), three) == merge(one, merge(two, three))
    assert merge(one, two) == merge(two, one)

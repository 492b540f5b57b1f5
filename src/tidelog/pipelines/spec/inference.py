"""The Spark schema of JSON objects, found from the objects themselves. Pure.

Every value has a type, and two types have a least one that takes both: BIGINT, DECIMAL(n,0) and DOUBLE widen in this
order, objects and arrays part by part, and whatever else does not go together is STRING, which takes any JSON as its
text. So each object that was seen can be read with the schema that was found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
DECIMAL_DIGITS_MAX = 38
DEPTH_MAX = 12
"""Objects and arrays inside one another; what is deeper is kept as its text."""

FIELDS_MAX = 500
"""Of one object; the least frequent ones are left out."""

MAP_FIELDS_MIN = 64
MAP_SHARE_MAX = 0.2
"""An object with so many different names, each in so small a share of the objects, has data for names: it is a map."""

_OPERATORS = ("NOT", "SELECT")
"""Words that SQL takes for something else, even behind the dot of `value.not`."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMESTAMP = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<time>[0-9]{2}:[0-9]{2}(:[0-9]{2})?)(?(3)(\.[0-9]{1,9})?)"
    r"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])?"
)


@dataclass(frozen=True, slots=True)
class Simple:
    """A type without parts. VOID is that of null alone."""

    name: str
    digits: int = 0
    """Of a DECIMAL."""


@dataclass(frozen=True, slots=True)
class Array:
    element: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """An object: its fields, how often each was there, and how many objects there were."""

    fields: Mapping[str, tuple[Type, int]]
    count: int = 1


Type = Simple | Array | Struct

VOID, BOOLEAN, BIGINT, DOUBLE = Simple("VOID"), Simple("BOOLEAN"), Simple("BIGINT"), Simple("DOUBLE")
STRING, TIMESTAMP = Simple("STRING"), Simple("TIMESTAMP")


class JsonObject(tuple[tuple[str, Any], ...]):
    """An object as it is written: a name may stand in it twice, and Spark reads both."""


def parse_object(text: str) -> JsonObject | None:
    """The object that a text is, or None when it is anything else."""
    try:
        value = json.loads(text, object_pairs_hook=JsonObject, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, JsonObject) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def infer(objects: Iterable[JsonObject | Mapping[str, Any]]) -> Struct:
    """The type of all objects together."""
    found: Type | None = None
    for value in objects:
        single = infer_type(value)
        found = single if found is None else merge(found, single)
    return found if isinstance(found, Struct) else Struct({}, 0)


def infer_type(value: Any, depth: int = 0) -> Type:
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            return _integer(value)
        case float():
            # A number too large for a double is read as infinity, and would be written so.
            return DOUBLE if abs(value) != float("inf") else STRING
        case str():
            return TIMESTAMP if is_timestamp(value) else STRING
    if depth > DEPTH_MAX:
        return STRING
    if isinstance(value, list):
        element: Type = VOID
        for item in value:
            element = merge(element, infer_type(item, depth + 1))
        return Array(element)
    fields: dict[str, tuple[Type, int]] = {}
    for name, item in value if isinstance(value, JsonObject) else value.items():
        single = infer_type(item, depth + 1)
        fields[name] = (merge(fields[name][0], single) if name in fields else single, 1)
    return Struct(fields)


def _integer(value: int) -> Type:
    if BIGINT_MIN <= value <= BIGINT_MAX:
        return BIGINT
    # Not by its text: Python refuses to write numbers of many thousand digits.
    digits = next((digits for digits in range(19, DECIMAL_DIGITS_MAX + 1) if abs(value) < 10**digits), 0)
    return Simple("DECIMAL", digits) if digits else STRING


def is_timestamp(text: str) -> bool:
    """A day and a time as ISO 8601 has them, with or without a zone."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return False
    try:
        datetime.fromisoformat(f"{found['day']}T{found['time']}")
    except ValueError:
        return False
    return True


def merge(one: Type, other: Type) -> Type:
    """The least type that takes what either takes."""
    if one == other and not isinstance(one, Struct):
        return one
    match one, other:
        case (Simple("VOID"), _):
            return other
        case (_, Simple("VOID")):
            return one
        case (Struct(), Struct()):
            return _merge_structs(one, other)
        case (Array(first), Array(second)):
            return Array(merge(first, second))
        case (Simple(first_name), Simple(second_name)):
            names = {first_name, second_name}
            if names <= {"BIGINT", "DECIMAL"}:
                return Simple("DECIMAL", max(one.digits, other.digits))
            return DOUBLE if names <= {"BIGINT", "DECIMAL", "DOUBLE"} else STRING
        case _:
            return STRING


def _merge_structs(one: Struct, other: Struct) -> Struct:
    fields = dict(one.fields)
    for name, (type_, count) in other.fields.items():
        if name in fields:
            earlier, times = fields[name]
            fields[name] = (merge(earlier, type_), times + count)
        else:
            fields[name] = (type_, count)
    return Struct(fields, one.count + other.count)


# -- as text -----------------------------------------------------------------------------------------------------------


def fields_of(struct: Struct) -> tuple[dict[str, Type], list[str]]:
    """The fields that a schema can name, in the order they were seen, and the names that it cannot.

    Spark does not tell names apart by their case: of those that differ in nothing else the most frequent one stays.
    """
    usable = {name: count for name, (_, count) in struct.fields.items() if is_name(name)}
    chosen: dict[str, str] = {}
    for name in sorted(usable, key=lambda name: -usable[name])[:FIELDS_MAX]:
        chosen.setdefault(name.lower(), name)
    kept = set(chosen.values())
    return (
        {name: type_ for name, (type_, _) in struct.fields.items() if name in kept},
        [name for name in struct.fields if name not in kept],
    )


def is_name(name: str) -> bool:
    """Whether a schema in a pipeline file can hold a name: `${` there is a variable."""
    return bool(name) and name.isprintable() and "${" not in name


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return (
        name if _PLAIN_NAME.fullmatch(name) and name.upper() not in _OPERATORS else "`" + name.replace("`", "``") + "`"
    )


def to_ddl(type_: Type) -> str:
    """A type in Spark's words."""
    match type_:
        case Simple("VOID"):
            return "STRING"
        case Simple("DECIMAL", digits):
            return f"DECIMAL({digits},0)"
        case Simple(name):
            return name
        case Array(element):
            return f"ARRAY<{to_ddl(element)}>"
    if is_map(type_):
        values: Type = VOID
        for value, _ in type_.fields.values():
            values = merge(values, value)
        return f"MAP<STRING, {to_ddl(values)}>"
    fields, _ = fields_of(type_)
    if not fields:
        return "STRING"
    return f"STRUCT<{', '.join(f'{quoted(name)}: {to_ddl(field)}' for name, field in fields.items())}>"


def is_map(struct: Struct) -> bool:
    counts = [count for _, count in struct.fields.values()]
    return len(counts) >= MAP_FIELDS_MIN and sum(counts) / len(counts) <= struct.count * MAP_SHARE_MAX


def left_out(struct: Struct, place: str = "") -> Iterator[str]:
    """The fields that the schema does not name, with the names of the objects that they are in."""
    fields, names = fields_of(struct)
    yield from (f"{place}{name}" for name in names)
    for name, type_ in fields.items():
        while isinstance(type_, Array):
            type_ = type_.element
        if isinstance(type_, Struct) and not is_map(type_):
            yield from left_out(type_, f"{place}{name}.")

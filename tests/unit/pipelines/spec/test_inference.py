"""The schema of JSON objects: what each kind of value becomes, and what becomes of kinds that do not go together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.pipelines.spec.inference import (
    DEPTH_MAX,
    FIELDS_MAX,
    fields_of,
    infer,
    is_timestamp,
    left_out,
    parse_object,
    to_ddl,
)


def schema_of(*values: Any) -> str:
    """The type of a field that has these values in as many objects."""
    fields, _ = fields_of(infer({"f": value} for value in values))
    return to_ddl(fields["f"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1], "BIGINT"),
        ([2**63 - 1, -(2**63)], "BIGINT"),
        ([2**63], "DECIMAL(19,0)"),
        ([-(10**37)], "DECIMAL(38,0)"),
        ([10**38], "STRING"),
        ([1, 2**63], "DECIMAL(19,0)"),
        ([1, 0.5], "DOUBLE"),
        ([2**63, 0.5], "DOUBLE"),
        ([10**38, 0.5], "STRING"),
        ([True, False], "BOOLEAN"),
        ([True, 1], "STRING"),
        (["a"], "STRING"),
        (["a", 1], "STRING"),
        ([None], "STRING"),
        ([None, 1], "BIGINT"),
        (["2026-11-16T10:00:12Z"], "TIMESTAMP"),
        (["2026-11-16T10:00:12Z", None, "2026-11-16 10:00"], "TIMESTAMP"),
        (["2026-11-16T10:00:12Z", "soon"], "STRING"),
        (["2026-11-16T10:00:12Z", 1], "STRING"),
        ([[1], [0.5], []], "ARRAY<DOUBLE>"),
        ([[]], "ARRAY<STRING>"),
        ([[[1], None]], "ARRAY<ARRAY<BIGINT>>"),
        ([[1, "a"]], "ARRAY<STRING>"),
        ([{"a": 1}, {"b": [True]}], "STRUCT<a: BIGINT, b: ARRAY<BOOLEAN>>"),
        ([{}], "STRING"),
        ([{}, {"a": 1}], "STRUCT<a: BIGINT>"),
        ([{"a": 1}, [1]], "STRING"),
        ([{"a": 1}, 1], "STRING"),
        ([[{"a": 1}, {"a": 0.5}]], "ARRAY<STRUCT<a: DOUBLE>>"),
        ([{"my field": 1, "a`b": 2, "1st": 3, "not": 4}], "STRUCT<`my field`: BIGINT, `a``b`: BIGINT, `1st`: BIGINT, "
         "`not`: BIGINT>"),
    ],
)  # fmt: skip
def test_types(values: list[Any], expected: str) -> None:
    assert schema_of(*values) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-16T10:00", "2026-11-16 10:00:12", "2026-11-16T10:00:12.1Z", "2026-11-16T10:00:12.123456789+05:30"),
        "2024-02-29T23:59:59-17:59",
    ],
)
def test_timestamps(text: str) -> None:
    assert is_timestamp(text)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-16", "10:00:12", "2026-11-16T10", "2026-02-30T10:00:00Z", "2026-11-16T25:00:00Z"),
        *("2026-11-16T10:00:61Z", "2026-11-16T10:00:12 Z", "2026-11-16T10:00:12+19:00", "٢٠٢٦-11-16T10:00:00Z"),
        *("2026-11-16T10:00.5Z", "0000-01-01T00:00:00Z", "1731751200000", ""),
    ],
)
def test_what_is_no_timestamp(text: str) -> None:
    assert not is_timestamp(text)


def test_names_that_a_schema_cannot_have_are_left_out() -> None:
    found = infer([{"": 1, "a\nb": 2, "${HOME}": 3, "\ud800": 4, "fine": {"\x00": 5, "x": 6}}])
    assert {name: to_ddl(type_) for name, type_ in fields_of(found)[0].items()} == {"fine": "STRUCT<x: BIGINT>"}
    assert list(left_out(found)) == ["", "a\nb", "${HOME}", "\ud800", "fine.\x00"]


def test_of_names_that_differ_by_case_the_most_frequent_stays() -> None:
    found = infer([{"ID": 1, "id": "a"}, {"id": "b"}, {"Id": 0.5}])
    assert {name: to_ddl(type_) for name, type_ in fields_of(found)[0].items()} == {"id": "STRING"}
    assert list(left_out(found)) == ["ID", "Id"]


def test_an_object_with_data_for_names_is_a_map() -> None:
    found = infer([{"counts": {f"user-{number}": number}} for number in range(100)])
    assert to_ddl(fields_of(found)[0]["counts"]) == "MAP<STRING, BIGINT>"
    assert list(left_out(found)) == []
    every = infer([{"wide": {f"field{number}": number for number in range(100)}}] * 2)
    assert to_ddl(fields_of(every)[0]["wide"]).startswith("STRUCT<field0: BIGINT, ")


def test_the_rarest_of_very_many_fields_are_left_out() -> None:
    often = {f"often{number}": 1 for number in range(FIELDS_MAX)}
    fields, names = fields_of(infer([{"rare": 1, **often}, often]))
    assert list(fields) == list(often)
    assert names == ["rare"]


def test_what_is_nested_too_deeply_is_kept_as_text() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"a": value}
    assert schema_of(value) == "STRUCT<a: " * DEPTH_MAX + "STRING" + ">" * DEPTH_MAX


def test_a_name_that_stands_twice_counts_with_both_values() -> None:
    found = parse_object('{"a": 1, "a": "x"}')
    assert found is not None
    assert to_ddl(fields_of(infer([found]))[0]["a"]) == "STRING"


@pytest.mark.parametrize("text", ["", "1", "[]", '"a"', "{", '{"a": NaN}', '{"a": -Infinity}', "{} {}", "{'a': 1}"])
def test_what_is_no_object(text: str) -> None:
    assert parse_object(text) is None


def test_objects_that_are_nested_beyond_reason_are_none() -> None:
    assert parse_object('{"a":' * 100_000 + "1" + "}" * 100_000) is None
    assert parse_object(json.dumps({"a": "x" * 1_000_000})) is not None
    assert parse_object('{"a": ' + "9" * 5000 + "}") is None

"""Values are their fields."""

from __future__ import annotations

import pytest

from tidelog.model.value import Value


class Point(Value):
    x: int
    y: int = 7


class Named(Point, kw_only=True):
    name: str


def test_values_are_equal_by_their_fields_and_class() -> None:
    assert Point(1, 2) == Point(1, y=2)
    assert Point(1) == Point(1, 7)
    assert Point(1) != Point(2)
    assert Point(1) != Named(x=1, name="a")
    assert {Point(1), Point(1, 7)} == {Point(1)}


def test_values_show_replace_and_match_their_fields() -> None:
    assert repr(Named(x=1, name="a")) == "Named(x=1, y=7, name='a')"
    assert Named(x=1, name="a").replace(y=3) == Named(x=1, y=3, name="a")
    match Point(4, 5):
        case Point(x, y):
            assert (x, y) == (4, 5)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(TypeError, match="Named without name"):
        Named(x=1)  # type: ignore[call-arg]

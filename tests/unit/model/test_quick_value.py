"""Values with constructors of their own: a field that is added must be in `fields` too."""

from __future__ import annotations

import inspect

import pytest

from tidelog.groups.core import messages, records
from tidelog.groups.core.consumer import records as consumer_records
from tidelog.model.quick_value import QuickValue
from tidelog.records import batch
from tidelog.storage import log_writer

SEQUENCE = {"members"}
"""Compared as a tuple, whatever sequence it is."""


class Point(QuickValue):
    __slots__ = ("x", "y")

    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y

    def fields(self) -> tuple[object, ...]:
        return self.x, self.y


class Place(Point):
    pass


def test_they_are_equal_by_their_fields_and_class() -> None:
    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Point(2, 1)
    assert Point(1, 2) != Place(1, 2)
    assert Point(1, 2) != (1, 2)
    assert {Point(1, 2), Point(1, 2)} == {Point(1, 2)}
    assert repr(Place(1, 2)) == "Place(1, 2)"


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for module in (messages, records, consumer_records, batch, log_writer)
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, QuickValue) and kind is not QuickValue and name[0] != "_"
    ],
    ids=lambda kind: kind.__name__,
)
def test_fields_are_the_arguments_of_the_constructor(kind: type[QuickValue]) -> None:
    names = list(inspect.signature(kind).parameters)
    values = tuple((name,) if name in SEQUENCE else name for name in names)
    value = kind(*values)
    assert value.fields() == values
    assert [getattr(value, name) for name in names] == list(values)

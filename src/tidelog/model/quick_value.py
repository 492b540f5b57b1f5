"""Values of which requests make thousands: a named tuple's use at a tenth of its price.

Compiled, a class with slots is made and read directly, where a named tuple is made by an interpreted function. What is
saved there is paid in lines: such a class writes its constructor itself. `value.py` has the way for everything else.
"""

from __future__ import annotations


class QuickValue:
    """Equal to another of its class with equal fields, and shown by them."""

    __slots__ = ()

    def fields(self) -> tuple[object, ...]:
        """What it is compared and shown by, in the order of its constructor."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        return isinstance(other, QuickValue) and type(other) is type(self) and self.fields() == other.fields()

    def __ne__(self, other: object) -> bool:
        # Compiled code would ask `object` for it, which asks the interpreter for the other one.
        return not self.__eq__(other)

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.fields()!r}"

"""Values: classes that are their fields, as frozen dataclasses are, made without compiling code when they are imported.

A dataclass costs a node about half a millisecond at every start, and the machines have dozens of messages, events and
effects. Type checkers see a frozen dataclass; at run time nothing stops a change, and no code makes one.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Value:
    """Fields are the annotations of the class, those of a base first; defaults are attributes of the class."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _required: ClassVar[int] = 0

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        own = cls.__annotations__
        inherited = [name for name in cls._fields if name not in own]
        cls._fields = (*inherited, *(name for name in own if not name.startswith("_")))
        cls._required = sum(not hasattr(cls, name) for name in cls._fields)
        cls.__match_args__ = cls._fields  # type: ignore[attr-defined, misc]

    def __init__(self, *args: Any, **fields: Any) -> None:
        values = self.__dict__
        values.update(zip(self._fields, args, strict=False))
        values.update(fields)
        if len(args) + len(fields) < self._required:
            missing = [name for name in self._fields if not hasattr(self, name)]
            raise TypeError(f"{type(self).__name__} without {', '.join(missing)}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    def replace(self, **changes: Any) -> Self:
        """The same with these fields changed."""
        return type(self)(**{**dict(zip(self._fields, self._values(), strict=True)), **changes})

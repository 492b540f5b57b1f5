"""What all generated messages have in common.

One class stands for all versions of a message. Its fields are attributes with the defaults of Kafka's definitions;
equality and `repr` go over the fields. Only messages, not the structures inside them, know how to encode themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing import Self

    from tidelog.protocol.wire import Buffer


class Structure:
    """A group of fields inside a message."""

    __slots__: tuple[str, ...] = ()

    SECRETS: ClassVar[frozenset[str]] = frozenset()
    """Fields that are never shown: a description of the message gives their length instead."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self._shown(name)}" for name in self.__slots__)
        return f"{self.__class__.__name__}({fields})"

    def _shown(self, name: str) -> str:
        content = getattr(self, name)
        return f"<{len(content)} bytes>" if name in self.SECRETS else repr(content)


class Message(Structure):
    """A request, a response, or a record of an internal topic."""

    __slots__ = ()

    API_KEY: ClassVar[int | None] = None
    """Of a coordinator or metadata record: its record type."""
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None
    """The first version with compact sizes and tagged fields."""

    @classmethod
    def decode(cls, buf: Buffer, pos: int, version: int) -> tuple[Self, int]:
        """Reads the message at `pos`; returns it and where it ended. Bytes after it are not looked at."""
        raise NotImplementedError

    def encode_into(self, out: bytearray, version: int) -> None:
        raise NotImplementedError

    def encode(self, version: int) -> bytes:
        out = bytearray()
        self.encode_into(out, version)
        return bytes(out)

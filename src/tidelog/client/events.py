"""Server-Sent Events, taken apart as their bytes arrive. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.client.bounds import EVENT_BYTES_MAX


class Event(NamedTuple):
    id: str
    """The last one that was said."""
    data: str
    """Empty where an event only says where a stream is."""


class EventTooLarge(ValueError):
    pass


class EventParser:
    """The lines that nodes send: `id:`, `data:`, and comments as signs of life."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._id = ""
        """Of the event that is arriving: one that never ends has said nothing."""
        self._has_id = False
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[Event]:
        """The events that are complete now."""
        *lines, rest = part.split(b"\n")
        for end in lines:
            line = (bytes(self._rest) + end).rstrip(b"\r").decode("utf-8", "replace")
            self._rest.clear()
            if line:
                self._take(line)
            elif self._data or self._has_id:
                data, self._data = "\n".join(self._data), []
                self._has_id = False
                yield Event(self._id, data)
        self._rest += rest
        if len(self._rest) > EVENT_BYTES_MAX:
            raise EventTooLarge(f"an event has more than {EVENT_BYTES_MAX} bytes")

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
            self._has_id = True
        elif name == "data":
            self._data.append(value)

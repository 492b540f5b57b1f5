"""Splits a body into the JSON objects that stand in it one after the other, as it arrives."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.http.proxy.errors import ProxyError

_NOT_BLANK: Final = re.compile(rb"[^ \t\r\n]")
_OUTSIDE_STRINGS: Final = re.compile(rb'["{}]')
_OTHER_VALUES: Final = frozenset(bytes([byte]) for byte in b'["-0123456789tfn')
"""How JSON begins that is no object."""
_IN_STRINGS: Final = re.compile(rb'["\\]')


class ObjectSplitter:
    """An object ends where its braces do; every byte is looked at once, however the body is cut into parts."""

    __slots__ = ("_bytes_max", "_depth", "_held", "_is_escaped", "_is_in_string", "is_broken")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` is for one object."""
        self._bytes_max = bytes_max
        self._held = bytearray()
        """The beginning of an object whose end has not arrived."""
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self.is_broken = False
        """Nothing behind this place can be read as an object."""

    def feed(self, part: bytes) -> list[dict[str, Any] | HttpError]:
        """The objects that are complete now, and an error in the place of each that is none."""
        found: list[dict[str, Any] | HttpError] = []
        position = start = 0
        while position < len(part) and not self.is_broken:
            if not self._depth:
                begin = _NOT_BLANK.search(part, position)
                if begin is None:
                    return found
                start = begin.start()
                if part[start : start + 1] != b"{":
                    is_json = part[start : start + 1] in _OTHER_VALUES
                    fault = "A record must be a JSON object." if is_json else "The body is not JSON."
                    found.append(self._break(ProxyError(422 if is_json else 400, fault)))
                    break
                position = start + 1
                self._depth = 1
                continue
            position = self._scan(part, position)
            if not self._depth:
                found.append(_decode(bytes(self._held) + part[start:position]))
                self._held.clear()
        if self._depth and not self.is_broken:
            self._held += part[start:]
            if len(self._held) > self._bytes_max:
                found.append(self._break(ProxyError(413, f"A record has at most {self._bytes_max} bytes of JSON.")))
        return found

    def finish(self) -> HttpError | None:
        """What is wrong with the end of the body."""
        if self._depth and not self.is_broken:
            return self._break(HttpError(400, "The body is not JSON: its last object has no end."))
        return None

    def _scan(self, part: bytes, position: int) -> int:
        """To behind the next byte that matters."""
        if self._is_escaped:
            self._is_escaped = False
            return position + 1
        found = (_IN_STRINGS if self._is_in_string else _OUTSIDE_STRINGS).search(part, position)
        if found is None:
            return len(part)
        said = found.group()
        if said == b'"':
            self._is_in_string = not self._is_in_string
        elif said == b"\\":
            self._is_escaped = True
        else:
            self._depth += 1 if said == b"{" else -1
        return found.end()

    def _break(self, error: HttpError) -> HttpError:
        self.is_broken = True
        self._held.clear()
        return error


def _decode(text: bytes) -> dict[str, Any] | HttpError:
    try:
        decoded: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        return HttpError(400, f"The body is not JSON: {error}")
    return decoded

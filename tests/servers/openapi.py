"""Holds the answers of an HTTP door against its own OpenAPI document: status, content type and shape of the body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tests.servers.http import HttpAnswer, ask, get

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


class DocumentedDoor:
    """Asks, and fails where the answer is not what the document says."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._document = get(port, "/openapi.json").json()
        self._paths = [
            (
                re.compile("/".join("[^/]*" if part.startswith("{") else re.escape(part) for part in path.split("/"))),
                path,
            )
            for path in sorted(self._document["paths"], key=lambda path: path.count("{"))
        ]
        self.seen: set[tuple[str, str]] = set()
        """Method and path of every operation that was asked."""

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """`body` is bytes, or a value that is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = ask(self.port, method, path, data, headers)
        self._check(method, path, answer)
        return answer

    def _check(self, method: str, target: str, answer: HttpAnswer) -> None:
        path = target.partition("?")[0]
        template = next((template for pattern, template in self._paths if pattern.fullmatch(path)), None)
        operation = self._document["paths"].get(template, {}).get(method.lower())
        if operation is None:
            assert answer.status in (404, 405), (method, path, answer.status)
            return
        self.seen.add((method, template or ""))
        where = f"{method} {target}: {answer.status} {answer.body[:300]!r}"
        declared = operation["responses"].get(str(answer.status))
        assert declared is not None, f"{where} is not documented"
        if "content" not in declared:
            assert answer.body == b"", where
            return
        media_type = answer.headers["content-type"].partition(";")[0]
        contents = {name.partition(";")[0]: content for name, content in declared["content"].items()}
        assert media_type in contents, f"{where} has content of type {media_type}"
        if media_type.endswith(("/json", "+json")):
            wrong = self.find_wrong(contents[media_type]["schema"], answer.json())
            assert wrong is None, f"{where}: {wrong}"

    def find_wrong(self, schema: Mapping[str, Any], value: Any, place: str = "body") -> str | None:
        """What of the value is not as the schema says."""
        if "$ref" in schema:
            return self.find_wrong(self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value)
        if "anyOf" in schema:
            found = [self.find_wrong(each, value, place) for each in schema["anyOf"]]
            return None if None in found else found[0]
        kinds = schema.get("type", [])
        allowed = [kinds] if isinstance(kinds, str) else kinds
        if allowed and not any(_is_of(kind, value) for kind in allowed):
            return f"{place} is {value!r}, not {allowed}"
        if "enum" in schema and value not in schema["enum"]:
            return f"{place} is {value!r}, not one of {schema['enum']}"
        if isinstance(value, dict):
            missing = [name for name in schema.get("required", ()) if name not in value]
            if missing:
                return f"{place} lacks {missing}"
            for name, each in schema.get("properties", {}).items():
                if name in value and (wrong := self.find_wrong(each, value[name], f"{place}.{name}")):
                    return wrong
        if isinstance(value, list) and "items" in schema:
            for number, each in enumerate(value):
                if wrong := self.find_wrong(schema["items"], each, f"{place}[{number}]"):
                    return wrong
        return None


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])

"""Kafka's message definitions as Python objects: what a field is, and in which versions it exists.

A definition is a JSON file with `//` comments. Everything here is about the definitions alone; nothing knows what the
generated code looks like.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

VERSION_MAX = 32767

SCALARS = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes", "records"]
)


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty when `low` is above `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None, default: Versions | None = None) -> Versions:
        if text is None:
            if default is None:
                raise ValueError("a field without versions")
            return default
        text = text.strip()
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: Versions) -> Versions:
        """The smallest range that holds both."""
        if not self:
            return other
        if not other:
            return self
        return Versions(min(self.low, other.low), max(self.high, other.high))

    def covers(self, other: Versions) -> bool:
        return not other or (self.low <= other.low and other.high <= self.high)


NO_VERSIONS = Versions(0, -1)


@dataclass(slots=True)
class Field:
    name: str
    attribute: str
    type: str
    """A scalar type or the JSON name of a struct; of the elements when `is_array`."""
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: str
    ignorable: bool
    struct: Struct | None = None


@dataclass(slots=True, eq=False)
class Struct:
    name: str
    fields: list[Field]
    class_name: str = ""
    versions: Versions = NO_VERSIONS
    """The versions in which the struct can be met on the wire, given every field that leads to it."""


@dataclass(slots=True)
class Message:
    name: str
    kind: str
    """request, response, header, data, metadata, coordinator-key or coordinator-value."""
    api_key: int | None
    valid: Versions
    flexible: Versions
    root: Struct
    latest_version_unstable: bool = False
    structs: list[Struct] = field(default_factory=list)
    """Every struct of the message, the ones that others use first, the root last."""

    @property
    def flexible_from(self) -> int | None:
        both = self.flexible & self.valid
        return both.low if both else None


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parse_message(text: str) -> Message | None:
    """Reads one definition; None for a message of which no version is left."""
    definition = json.loads("\n".join(re.sub(r"^\s*//.*$", "", line) for line in text.split("\n")))
    valid = Versions.parse(definition["validVersions"])
    if not valid:
        return None
    shared = {entry["name"]: entry["fields"] for entry in definition.get("commonStructs", [])}
    known: dict[str, Struct] = {}
    root = _parse_struct(definition["name"], definition["fields"], shared, known)
    message = Message(
        name=definition["name"],
        kind=definition["type"],
        api_key=definition.get("apiKey"),
        valid=valid,
        flexible=Versions.parse(definition["flexibleVersions"]),
        root=root,
        latest_version_unstable=definition.get("latestVersionUnstable", False),
    )
    _find_reachable(root, valid)
    _collect(root, message.structs)
    return message


def _parse_struct(name: str, fields: list[Any], shared: dict[str, Any], known: dict[str, Struct]) -> Struct:
    struct = known[name] = Struct(name, [])
    struct.fields = [_parse_field(entry, shared, known) for entry in fields]
    return struct


def _parse_field(entry: dict[str, Any], shared: dict[str, Any], known: dict[str, Struct]) -> Field:
    type_name: str = entry["type"]
    is_array = type_name.startswith("[]")
    type_name = type_name.removeprefix("[]")
    tagged = Versions.parse(entry.get("taggedVersions"), NO_VERSIONS)
    default = entry.get("default")
    # Kafka reads a JSON null here as "no default given"; only the string "null" means null.
    default_text = "" if default is None else json.dumps(default) if isinstance(default, bool) else str(default)
    struct = None
    if type_name not in SCALARS:
        if "fields" in entry:
            struct = _parse_struct(type_name, entry["fields"], shared, known)
        elif type_name in known:
            struct = known[type_name]
        else:
            struct = _parse_struct(type_name, shared[type_name], shared, known)
    return Field(
        name=entry["name"],
        attribute=snake_case(entry["name"]),
        type=type_name,
        is_array=is_array,
        versions=Versions.parse(entry.get("versions"), tagged or None),
        nullable=Versions.parse(entry.get("nullableVersions"), NO_VERSIONS),
        tagged=tagged,
        tag=entry.get("tag", -1),
        default=default_text,
        ignorable=entry.get("ignorable", False),
        struct=struct,
    )


def _find_reachable(struct: Struct, versions: Versions) -> None:
    struct.versions = struct.versions | versions
    for member in struct.fields:
        reached = member.versions & versions
        if member.struct is not None and reached:
            _find_reachable(member.struct, reached)


def _collect(struct: Struct, into: list[Struct]) -> None:
    for member in struct.fields:
        if member.struct is not None and member.struct.versions and member.struct not in into:
            _collect(member.struct, into)
    if struct not in into:
        into.append(struct)

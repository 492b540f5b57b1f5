"""A second codec to hold the generated one against: it interprets the definitions, field by field, at no speed at all.

Values are plain dictionaries. `schemas.json` is written by tools/generate_protocol.py from the same definitions, but
none of the code here is shared with the generator.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.protocol.message import Message

FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "uuid": ">16s",
}
RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


class Field(NamedTuple):
    name: str
    type: str
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tag: int
    default: str
    ignorable: bool

    def exists(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def may_be_null(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]

    @property
    def element(self) -> Field:
        """The element of an array, as if it were a field; elements are never null."""
        return self._replace(type=self.type[2:], nullable=(0, -1), tag=-1, default="")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")


class Schema:
    def __init__(self, entry: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.module: str = entry["module"]
        self.versions = range(entry["valid"][0], entry["valid"][1] + 1)
        self.flexible_from: int = 32768 if entry["flexible_from"] is None else entry["flexible_from"]
        self.structs = {name: [Field(*field) for field in fields] for name, (_, fields) in entry["structs"].items()}
        self.class_names = {name: class_name for name, (class_name, _) in entry["structs"].items()}

    @property
    def message_class(self) -> type[Message]:
        return self.struct_class(self.name)

    def struct_class(self, name: str) -> Any:
        return getattr(import_module(f"tidelog.protocol.generated.{self.module}"), self.class_names[name])

    # -- values ----------------------------------------------------------------------------------------------------

    def default(self, field: Field) -> Any:
        if field.default == "null":
            return None
        if field.is_array:
            return []
        if field.type in self.structs:
            return {inner.name: self.default(inner) for inner in self.structs[field.type]}
        match field.type:
            case "string":
                return field.default
            case "bytes" | "records":
                return b""
            case "uuid":
                return bytes(16)
            case "bool":
                return field.default == "true"
            case "float64":
                return float(field.default or 0)
            case _:
                return int(field.default or "0", 0)

    def random_values(self, chance: random.Random, version: int, struct_name: str = "") -> dict[str, Any]:
        """A value for every field; fields that the version lacks hold their default."""
        return {
            field.name: self.random_value(chance, version, field) if field.exists(version) else self.default(field)
            for field in self.structs[struct_name or self.name]
        }

    def random_value(self, chance: random.Random, version: int, field: Field) -> Any:
        if field.tag >= 0 and chance.random() < 0.5:
            return self.default(field)
        if field.may_be_null(version) and chance.random() < 0.25:
            return None
        if field.is_array:
            most = 3 if field.type[2:] in self.structs else 40
            count = chance.choice([0, 1, 1, 2, chance.randint(0, most)])
            return [self.random_value(chance, version, field.element) for _ in range(count)]
        if field.type in self.structs:
            return self.random_values(chance, version, field.type)
        match field.type:
            case "string":
                return "".join(chance.choices("abcÅ\u20ac\U0001f600", k=random_size(chance)))
            case "bytes" | "records":
                return chance.randbytes(random_size(chance))
            case "uuid":
                return chance.randbytes(16)
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice([0.0, -1.5, chance.uniform(-1e300, 1e300)])
            case _:
                low, high = RANGES[field.type]
                return chance.choice([low, high, 0, 1, max(low, -1), chance.randint(low, high)])

    def build(self, values: dict[str, Any], struct_name: str = "") -> Any:
        """The generated object that holds these values."""
        name = struct_name or self.name
        return self.struct_class(name)(
            **{field.name: self._build_value(field, values[field.name]) for field in self.structs[name]}
        )

    def _build_value(self, field: Field, value: Any) -> Any:
        if value is None:
            return None
        if field.is_array:
            return [self._build_value(field.element, item) for item in value]
        return self.build(value, field.type) if field.type in self.structs else value

    # -- encoding --------------------------------------------------------------------------------------------------

    def encode(self, values: dict[str, Any], version: int, struct_name: str = "") -> bytes:
        flexible = version >= self.flexible_from
        out = b""
        tags: list[tuple[int, bytes]] = []
        for field in self.structs[struct_name or self.name]:
            if not field.exists(version):
                continue
            if field.tag >= 0:
                if values[field.name] != self.default(field):
                    tags.append((field.tag, self._encode_value(field, values[field.name], version)))
                continue
            out += self._encode_value(field, values[field.name], version)
        if flexible:
            out += varint(len(tags))
            for tag, content in sorted(tags):
                out += varint(tag) + varint(len(content)) + content
        return out

    def _encode_value(self, field: Field, value: Any, version: int) -> bytes:
        flexible = version >= self.flexible_from
        if field.type in FORMATS:
            return struct.pack(FORMATS[field.type], value)
        if field.type in self.structs:
            if not field.may_be_null(version):
                return self.encode(value, version, field.type)
            absent = b"\xff" if field.tag < 0 else b"\x00"
            return absent if value is None else b"\x01" + self.encode(value, version, field.type)
        if field.is_array:
            content = b"".join(self._encode_value(field.element, item, version) for item in value or ())
        else:
            content = value.encode() if isinstance(value, str) else bytes(value or b"")
        size = -1 if value is None else len(value) if field.is_array else len(content)
        if flexible:
            return varint(size + 1) + content
        return struct.pack(">h" if field.type == "string" else ">i", size) + content


def random_size(chance: random.Random) -> int:
    return chance.choice([0, 1, 3, 8, chance.randint(0, 20), chance.choice([42, 63, 64, 126, 127, 128, 300])])


def varint(value: int) -> bytes:
    out = []
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


SCHEMAS = [Schema(entry) for entry in json.loads((Path(__file__).parent / "schemas.json").read_text())]
BY_NAME = {schema.name: schema for schema in SCHEMAS}


def every_version() -> Iterator[tuple[Schema, int]]:
    for schema in SCHEMAS:
        for version in schema.versions:
            yield schema, version

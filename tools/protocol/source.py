"""Python source as it is being written: lines, indentation, packed formats, version conditions.

The three emitters (classes, decoding, encoding) share one `Source` per module, which remembers what the module has to
import and which packed formats it uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.protocol.schema import Field, Message, Struct, Versions, snake_case

LINE_LENGTH = 120

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
SIZES = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
ARRAY_ELEMENT_SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uuid": 16}
"""The element types that occur in arrays and have a function of their own in `tidelog.protocol.wire`."""

TYPES = {"bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes", "records": "Buffer"}


class Source:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.formats: set[tuple[str, str]] = set()
        self.wire_names: set[str] = set()
        self.error_names: set[str] = set()
        self._depth = 0

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        with self.indented():
            yield

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def wrapped(self, opening: str, parts: list[str], closing: str) -> None:
        """One line when it fits, else one line per part."""
        text = opening + ", ".join(parts) + closing
        if 4 * self._depth + len(text) <= LINE_LENGTH:
            self.line(text)
            return
        self.line(opening)
        for part in parts:
            self.line(f"    {part},")
        self.line(closing)

    @contextmanager
    def function(self, name: str, parameters: list[str], result: str) -> Iterator[None]:
        self.wrapped(f"def {name}(", parameters, f") -> {result}:")
        with self.indented():
            yield

    def wire(self, name: str) -> str:
        self.wire_names.add(name)
        return name

    def error(self, name: str) -> str:
        self.error_names.add(name)
        return name

    def unpack(self, formats: list[str]) -> str:
        return self._packed("unpack", formats)

    def pack(self, formats: list[str]) -> str:
        return self._packed("pack", formats)

    def _packed(self, verb: str, formats: list[str]) -> str:
        self.formats.add((verb, "".join(formats)))
        return packed_name(verb, "".join(formats))


def packed_name(verb: str, formats: str) -> str:
    """`_unpack_ihB` for ">ihB"; a bool is written t and a UUID u."""
    return f"_{verb}_{formats.replace('?', 't').replace('16s', 'u')}"


class Flavour:
    """One of the two encodings of a struct: flexible (compact sizes, tags) or classic; and its versions."""

    def __init__(self, message: Message, struct: Struct, flexible: bool) -> None:
        low, high = message.valid.low, message.valid.high
        first = message.flexible_from
        if flexible:
            own = Versions(first, high) if first is not None else Versions(1, 0)
        else:
            own = Versions(low, first - 1 if first is not None else high)
        self.flexible = flexible
        self.versions = own & struct.versions
        self.suffix = "flexible" if flexible else "classic"

    def condition(self, versions: Versions) -> str:
        """The test that tells whether `versions` holds the version at hand: "" always, "False" never."""
        if versions.covers(self.versions):
            return ""
        common = versions & self.versions
        if not common:
            return "False"
        if common.low == common.high:
            return f"version == {common.low}"
        if common.low == self.versions.low:
            return f"version <= {common.high}"
        if common.high == self.versions.high:
            return f"version >= {common.low}"
        return f"{common.low} <= version <= {common.high}"

    def groups(self, struct: Struct) -> Iterator[tuple[str, list[Field]]]:
        """Untagged fields in wire order, cut where the condition changes."""
        current = ""
        fields: list[Field] = []
        for field in struct.fields:
            if field.tagged:
                continue
            condition = self.condition(field.versions)
            if condition != current and fields:
                yield current, fields
                fields = []
            current = condition
            fields.append(field)
        if fields:
            yield current, fields

    def tagged_fields(self, struct: Struct) -> list[Field]:
        return sorted((field for field in struct.fields if field.tagged), key=lambda field: field.tag)


def flavours(message: Message, struct: Struct) -> list[Flavour]:
    both = [Flavour(message, struct, True), Flavour(message, struct, False)]
    return [flavour for flavour in both if flavour.versions]


def function_name(verb: str, struct: Struct, flavour: Flavour) -> str:
    return f"_{verb}_{snake_case(struct.class_name)}_{flavour.suffix}"


def element_type(field: Field) -> str:
    return field.struct.class_name if field.struct is not None else TYPES.get(field.type, "int")


def is_nullable(field: Field) -> bool:
    return bool(field.nullable) or field.default == "null"


def annotation(field: Field) -> str:
    base = f"list[{element_type(field)}]" if field.is_array else element_type(field)
    return f"{base} | None" if is_nullable(field) else base


def default_value(field: Field) -> str:
    """The default as an expression; a new object each time where it is mutable."""
    if field.default == "null":
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{field.struct.class_name}()"
    match field.type:
        case "string":
            return '""' if not field.default else repr(field.default)
        case "bytes" | "records":
            return 'b""'
        case "uuid":
            return "ZERO_UUID"
        case "bool":
            return "True" if field.default == "true" else "False"
        case "float64":
            return repr(float(field.default or 0))
        case _:
            return str(int(field.default or "0", 0))


def differs_from_default(field: Field, owner: str) -> str:
    """The test whether `owner` holds something else than the default, which is when it must not be dropped."""
    name = f"{owner}.{field.attribute}"
    if field.default == "null":
        return f"{name} is not None"
    if field.is_array:
        return f"{name} != []" if is_nullable(field) else name
    if field.struct is not None:
        nested = field.struct.fields
        if not is_nullable(field) and all(part.struct is None and not part.is_array for part in nested):
            return " or ".join(differs_from_default(part, name) for part in nested)
        return f"{name} != {field.struct.class_name}()"
    if field.type == "bool":
        return f"not {name}" if field.default == "true" else name
    return f"{name} != {default_value(field)}"

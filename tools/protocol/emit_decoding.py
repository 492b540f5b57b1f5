"""Writes the functions that read a struct, one per flavour.

Fixed-width fields in a row, together with the size of the variable one that follows, become one `unpack_from`.
A size is kept in `n`: in flexible versions it is the size plus one, and zero means null.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.protocol.schema import Field, Message, Struct
from tools.protocol.source import (
    ARRAY_ELEMENT_SIZES,
    FORMATS,
    SIZES,
    Flavour,
    Source,
    default_value,
    element_type,
    flavours,
    function_name,
)

_RESERVED = frozenset(
    ["o", "buf", "pos", "limit", "version", "n", "end", "tag", "stop", "new", "str", "bytes", "range", "memoryview"]
)


def emit_read(source: Source, message: Message, struct: Struct) -> None:
    for flavour in flavours(message, struct):
        name = function_name("read", struct, flavour)
        result = f"tuple[{struct.class_name}, int]"
        with source.function(name, ["buf: Buffer", "pos: int", "limit: int", "version: int"], result):
            source.line(f"o = new({struct.class_name})")
            _Reader(source, message, struct, flavour).emit()
            source.line("return o, pos")
        source.line()
        source.line()


class _Reader:
    def __init__(self, source: Source, message: Message, struct: Struct, flavour: Flavour) -> None:
        self.source = source
        self.message = message
        self.struct = struct
        self.flavour = flavour
        self.pending: list[tuple[str, str]] = []

    def emit(self) -> None:
        groups = list(self.flavour.groups(self.struct))
        for condition, fields in groups:
            if condition == "False":
                self.assign_defaults(fields)
        for condition, fields in groups:
            if condition == "False":
                continue
            if condition == "":
                self.read_fields(fields)
                continue
            self.flush()
            with self.source.block(f"if {condition}:"):
                self.read_fields(fields)
                self.flush()
            with self.source.block("else:"):
                self.assign_defaults(fields)
        if self.flavour.flexible:
            self.pending.append(("B", "n"))
            self.flush()
            self.read_tags()
        else:
            self.flush()
            self.assign_defaults(self.flavour.tagged_fields(self.struct))

    def assign_defaults(self, fields: list[Field]) -> None:
        for field in fields:
            default = default_value(field)
            if default == "ZERO_UUID":
                self.source.wire(default)
            self.source.line(f"o.{field.attribute} = {default}")

    def flush(self) -> None:
        """Reads the pending fixed-width values in one go."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        source = self.source
        formats = [code for code, _ in pending]
        targets = [target for _, target in pending]
        if formats == ["B"]:
            source.line(f"{targets[0]} = buf[pos]")
        elif formats == ["?"]:
            source.line(f"{targets[0]} = buf[pos] != 0")
        elif len(targets) == 1:
            source.line(f"{targets[0]} = {source.unpack(formats)}(buf, pos)[0]")
        else:
            text = f"{', '.join(targets)} = {source.unpack(formats)}(buf, pos)"
            if len(text) <= 108:
                source.line(text)
            else:
                source.line("(")
                for target in targets:
                    source.line(f"    {target},")
                source.line(f") = {source.unpack(formats)}(buf, pos)")
        source.line(f"pos += {sum(SIZES[code] for code in formats)}")

    def read_fields(self, fields: list[Field]) -> None:
        for field in fields:
            self.read_field(field, f"o.{field.attribute}")

    def read_field(self, field: Field, target: str) -> None:
        if field.is_array:
            self.read_array(field, target)
        elif field.struct is not None:
            self.read_struct(field, target)
        elif field.type in FORMATS:
            self.pending.append((FORMATS[field.type], target))
        else:
            self.read_size(field.type)
            self.or_null(field, target, lambda: self.read_content(field.type, target))

    def read_size(self, type_name: str) -> None:
        """Reads a size into `n`."""
        source = self.source
        if not self.flavour.flexible:
            self.pending.append(("h" if type_name == "string" else "i", "n"))
            self.flush()
            return
        self.pending.append(("B", "n"))
        self.flush()
        function = source.wire("decode_long_string_size" if type_name == "string" else "decode_long_size")
        with source.block("if n > 127:"):
            source.line(f"n, pos = {function}(buf, pos - 1)")

    def or_null(self, field: Field, target: str, read: Callable[[], None]) -> None:
        """Reads what has the size `n`, or takes it for null where that is allowed."""
        source = self.source
        null = "n == 0" if self.flavour.flexible else "n < 0"
        condition = self.flavour.condition(field.nullable)
        label = f"{self.struct.class_name}.{field.attribute}"
        with source.block(f"if {null}:"):
            if condition == "False":
                source.line(f'raise {source.error("MalformedMessage")}("{label} is null")')
            else:
                if condition:
                    with source.block(f"if not ({condition}):"):
                        source.line(f'raise {source.error("MalformedMessage")}("{label} is null")')
                source.line(f"{target} = None")
        if condition == "False":
            read()
        else:
            with source.block("else:"):
                read()

    def read_content(self, type_name: str, target: str) -> None:
        source = self.source
        source.line("end = pos + n - 1" if self.flavour.flexible else "end = pos + n")
        match type_name:
            case "string":
                source.line(f'{target} = str(buf[pos:end], "utf-8")')
            case "bytes":
                source.line(f"{target} = bytes(buf[pos:end])")
            case _:
                source.line(f"{target} = memoryview(buf)[pos:end]")
        source.line("pos = end")

    def read_struct(self, field: Field, target: str) -> None:
        source = self.source
        assert field.struct is not None
        self.flush()
        call = f"{target}, pos = {function_name('read', field.struct, self.flavour)}(buf, pos, limit, version)"
        condition = self.flavour.condition(field.nullable)
        if condition == "False":
            source.line(call)
            return
        assert condition == "", "a struct that may be null in some versions only"
        source.line("pos += 1")
        # Kafka marks a struct that is not there with -1, but with 0 when the field is tagged.
        with source.block("if buf[pos - 1] == 0:" if field.tagged else "if buf[pos - 1] > 127:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            source.line(call)

    def read_array(self, field: Field, target: str) -> None:
        self.read_size("array")
        self.or_null(field, target, lambda: self.read_elements(field, target))

    def read_elements(self, field: Field, target: str) -> None:
        source = self.source
        if self.flavour.flexible:
            source.line("n -= 1")
        if field.type in ARRAY_ELEMENT_SIZES:
            function = source.wire(f"decode_{field.type}_array")
            size = ARRAY_ELEMENT_SIZES[field.type]
            source.line(f"{target} = {function}(buf, pos, limit, n)")
            source.line(f"pos += {size} * n" if size > 1 else "pos += n")
            return
        least = smallest_element(self.message, field, self.flavour)
        label = f"{self.struct.class_name}.{field.attribute}"
        with source.block(f"if n * {least} > limit - pos:" if least > 1 else "if n > limit - pos:"):
            source.line(f'raise {source.error("MalformedMessage")}("{label} has more elements than bytes")')
        items = field.attribute + ("_" if field.attribute in _RESERVED else "")
        source.line(f"{items}: list[{element_type(field)}] = []")
        if field.struct is None:
            # mypyc reads the bound of a range again in every turn, and `n` becomes the size of each string.
            source.line("count = n")
        with source.block("for _ in range(n):" if field.struct is not None else "for _ in range(count):"):
            if field.struct is not None:
                function = function_name("read", field.struct, self.flavour)
                source.line(f"{items}_item, pos = {function}(buf, pos, limit, version)")
                source.line(f"{items}.append({items}_item)")
            else:
                assert field.type == "string"
                self.read_string_element(field, items)
        source.line(f"{target} = {items}")

    def read_string_element(self, field: Field, items: str) -> None:
        self.read_size("string")
        with self.source.block("if n == 0:" if self.flavour.flexible else "if n < 0:"):
            self.source.line(f'raise MalformedMessage("{self.struct.class_name}.{field.attribute} holds a null")')
        self.source.line("end = pos + n - 1" if self.flavour.flexible else "end = pos + n")
        self.source.line(f'{items}.append(str(buf[pos:end], "utf-8"))')
        self.source.line("pos = end")

    def read_tags(self) -> None:
        source = self.source
        fields = self.flavour.tagged_fields(self.struct)
        self.assign_defaults(fields)
        with source.block("if n:"):
            if not any(self.flavour.condition(field.versions) != "False" for field in fields):
                source.line(f"pos = {source.wire('skip_tags')}(buf, pos, limit)")
                return
            with source.block("if n > 127:"):
                source.line(f"n, pos = {source.wire('decode_long_tag_count')}(buf, pos - 1)")
            source.line("tag_count = n")
            with source.block("for _ in range(tag_count):"):
                source.line(f"tag, pos, stop = {source.wire('decode_tag')}(buf, pos, limit)")
                keyword = "if"
                for field in fields:
                    condition = self.flavour.condition(field.versions)
                    test = f"tag == {field.tag}" + (f" and {condition}" if condition else "")
                    with source.block(f"{keyword} {test}:"):
                        self.read_field(field, f"o.{field.attribute}")
                        self.flush()
                    keyword = "elif"
                with source.block("else:"):
                    source.line("pos = stop")
                with source.block("if pos != stop:"):
                    label = f"{self.struct.class_name} has a tagged field of the wrong size"
                    source.line(f'raise {source.error("MalformedMessage")}("{label}")')


def smallest_element(message: Message, field: Field, flavour: Flavour) -> int:
    """The fewest bytes an element of the array takes in any version of the flavour; at least one."""
    if field.struct is None:
        return _smallest(field.type, flavour.flexible)
    inner = Flavour(message, field.struct, flavour.flexible)
    size = _smallest_struct(message, field.struct, inner)
    assert size > 0, f"{field.name} has elements without bytes"
    return size


def _smallest_struct(message: Message, struct: Struct, flavour: Flavour) -> int:
    versions = flavour.versions
    return min(
        sum(
            _smallest_field(message, field, flavour)
            for field in struct.fields
            if not field.tagged and field.versions.low <= version <= field.versions.high
        )
        for version in range(versions.low, versions.high + 1)
    ) + (1 if flavour.flexible else 0)


def _smallest_field(message: Message, field: Field, flavour: Flavour) -> int:
    if field.is_array:
        return 1 if flavour.flexible else 4
    if field.struct is not None:
        if field.nullable:
            return 1
        return _smallest_struct(message, field.struct, Flavour(message, field.struct, flavour.flexible))
    return _smallest(field.type, flavour.flexible)


def _smallest(type_name: str, flexible: bool) -> int:
    if type_name in FORMATS:
        return SIZES[FORMATS[type_name]]
    if flexible:
        return 1
    return 2 if type_name == "string" else 4

"""Writes the functions that append a struct to a bytearray, one per flavour.

Fixed-width fields in a row become one `pack`; so do the size that follows them in classic versions and the zero count
of tagged fields in flexible ones. A value that the version cannot carry raises, unless it may be dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.protocol.schema import Field, Message, Struct
from tools.protocol.source import (
    ARRAY_ELEMENT_SIZES,
    FORMATS,
    Flavour,
    Source,
    default_value,
    differs_from_default,
    flavours,
    function_name,
    is_nullable,
)


def emit_write(source: Source, message: Message, struct: Struct) -> None:
    for flavour in flavours(message, struct):
        name = function_name("write", struct, flavour)
        with source.function(name, [f"o: {struct.class_name}", "out: bytearray", "version: int"], "None"):
            _Writer(source, struct, flavour).emit()
        source.line()
        source.line()


class _Writer:
    def __init__(self, source: Source, struct: Struct, flavour: Flavour) -> None:
        self.source = source
        self.struct = struct
        self.flavour = flavour
        self.out = "out"
        self.pending: list[tuple[str, str]] = []

    def emit(self) -> None:
        before = len(self.source.lines)
        for condition, fields in self.flavour.groups(self.struct):
            if condition == "":
                for field in fields:
                    self.write_field(field)
                continue
            if condition == "False":
                self.refuse(fields)
                continue
            self.flush()
            with self.source.block(f"if {condition}:"):
                for field in fields:
                    self.write_field(field)
                self.flush()
            kept = [field for field in fields if not field.ignorable]
            if kept:
                with self.source.block("else:"):
                    self.refuse(kept)
        tagged = self.flavour.tagged_fields(self.struct)
        possible = [field for field in tagged if self.flavour.condition(field.versions) != "False"]
        if not self.flavour.flexible:
            self.flush()
            self.refuse(tagged)
        elif not possible:
            self.pending.append(("x", ""))
            self.flush()
            self.refuse(tagged)
        else:
            self.flush()
            self.write_tags(tagged)
        if len(self.source.lines) == before:
            self.source.line("pass")

    def refuse(self, fields: list[Field]) -> None:
        """Fields the version does not have: fine when they hold their default."""
        for field in fields:
            if field.ignorable:
                continue
            self.note_uuid(field)
            with self.source.block(f"if {differs_from_default(field, 'o')}:"):
                self.raise_unsupported(field)

    def raise_unsupported(self, field: Field) -> None:
        label = f"{self.struct.class_name}.{field.attribute}"
        self.source.line(f'raise {self.source.error("UnsupportedField")}("{label}", version)')

    def note_uuid(self, field: Field) -> None:
        if "ZERO_UUID" in differs_from_default(field, "o") or default_value(field) == "ZERO_UUID":
            self.source.wire("ZERO_UUID")

    def flush(self) -> None:
        pending, self.pending = self.pending, []
        if not pending:
            return
        formats = [code for code, _ in pending]
        values = [value for _, value in pending if value]
        if formats == ["x"]:
            self.source.line(f"{self.out}.append(0)")
        else:
            self.source.wrapped(f"{self.out} += {self.source.pack(formats)}(", values, ")")

    def write_field(self, field: Field) -> None:
        name = f"o.{field.attribute}"
        if field.is_array:
            self.nullable(field, "array", lambda: self.write_array(field, name))
        elif field.struct is not None:
            self.write_struct(field, name)
        elif field.type in FORMATS:
            self.pending.append((FORMATS[field.type], name))
        else:
            self.nullable(field, field.type, lambda: self.write_content(field.type, name))

    def nullable(self, field: Field, type_name: str, write: Callable[[], None]) -> None:
        """Writes null where the value is None and the version allows it, else what `write` emits."""
        source = self.source
        if not is_nullable(field):
            write()
            return
        self.flush()
        condition = self.flavour.condition(field.nullable)
        with source.block(f"if o.{field.attribute} is None:"):
            if condition == "False":
                self.raise_unsupported(field)
            else:
                if condition:
                    with source.block(f"if not ({condition}):"):
                        self.raise_unsupported(field)
                if self.flavour.flexible:
                    source.line(f"{self.out}.append(0)")
                elif type_name == "string":
                    source.line(f'{self.out} += b"\\xff\\xff"')
                else:
                    source.line(f'{self.out} += b"\\xff\\xff\\xff\\xff"')
        with source.block("else:"):
            write()
            self.flush()

    def write_size(self, expression: str, type_name: str) -> None:
        source = self.source
        if not self.flavour.flexible:
            self.pending.append(("h" if type_name == "string" else "i", expression))
            self.flush()
            return
        self.flush()
        function = source.wire("encode_long_string_size" if type_name == "string" else "encode_long_size")
        source.line(f"n = {expression} + 1")
        with source.block("if n < 128:"):
            source.line(f"{self.out}.append(n)")
        with source.block("else:"):
            source.line(f"{self.out} += {function}(n)")

    def write_content(self, type_name: str, name: str) -> None:
        if type_name == "string":
            self.source.line(f"raw = {name}.encode()")
            name = "raw"
        self.write_size(f"len({name})", type_name)
        self.source.line(f"{self.out} += {name}")

    def write_struct(self, field: Field, name: str) -> None:
        source = self.source
        assert field.struct is not None
        self.flush()
        call = f"{function_name('write', field.struct, self.flavour)}({name}, {self.out}, version)"
        if not is_nullable(field):
            source.line(call)
            return
        assert self.flavour.condition(field.nullable) == "", "a struct that may be null in some versions only"
        with source.block(f"if {name} is None:"):
            source.line(f"{self.out}.append({0 if field.tagged else 255})")
        with source.block("else:"):
            source.line(f"{self.out}.append(1)")
            source.line(call)

    def write_array(self, field: Field, name: str) -> None:
        source = self.source
        self.write_size(f"len({name})", "array")
        if field.struct is not None:
            with source.block(f"for {field.attribute}_item in {name}:"):
                function = function_name("write", field.struct, self.flavour)
                source.line(f"{function}({field.attribute}_item, {self.out}, version)")
        elif field.type == "string":
            with source.block(f"for {field.attribute}_item in {name}:"):
                self.write_content("string", f"{field.attribute}_item")
        elif field.type == "uuid":
            source.line(f'{self.out} += b"".join({name})')
        else:
            assert field.type in ARRAY_ELEMENT_SIZES
            source.line(f"{self.out} += {source.wire(f'encode_{field.type}_array')}({name})")

    def write_tags(self, fields: list[Field]) -> None:
        source = self.source
        source.line("count = 0")
        source.line("tags = bytearray()")
        for field in fields:
            condition = self.flavour.condition(field.versions)
            if condition == "False":
                self.refuse([field])
                continue
            self.note_uuid(field)
            with source.block(f"if {differs_from_default(field, 'o')}:"):
                if condition and not field.ignorable:
                    with source.block(f"if not ({condition}):"):
                        self.raise_unsupported(field)
                    self.write_tag(field)
                elif condition:
                    with source.block(f"if {condition}:"):
                        self.write_tag(field)
                else:
                    self.write_tag(field)
        source.line("out.append(count)")
        source.line("out += tags")

    def write_tag(self, field: Field) -> None:
        source = self.source
        source.line("field = bytearray()")
        self.out = "field"
        self.write_field(field)
        self.flush()
        self.out = "out"
        source.line(f"{source.wire('append_tagged')}(tags, {field.tag}, field)")
        source.line("count += 1")

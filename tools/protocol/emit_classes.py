"""Writes the classes: slots, keyword constructor with the defaults, and the public `decode` and `encode_into`."""

from __future__ import annotations

from tools.protocol.schema import Field, Message, Struct
from tools.protocol.source import Source, annotation, default_value, flavours, function_name, is_nullable


def emit_class(source: Source, message: Message, struct: Struct) -> None:
    is_root = struct is message.root
    with source.block(f"class {struct.class_name}({'Message' if is_root else 'Structure'}):"):
        if is_root:
            if message.api_key is not None:
                source.line(f"API_KEY = {message.api_key}")
            source.line(f"MIN_VERSION = {message.valid.low}")
            source.line(f"MAX_VERSION = {message.valid.high}")
            source.line(f"FLEXIBLE_FROM = {message.flexible_from}")
            source.line()
        names = [f'"{field.attribute}"' for field in struct.fields]
        source.wrapped("__slots__ = (", names, ",)" if len(names) == 1 else ")")
        if struct.fields:
            source.line()
            _emit_constructor(source, struct)
        if is_root:
            source.line()
            _emit_decode(source, message)
            source.line()
            _emit_encode(source, message)
    source.line()
    source.line()


def _emit_constructor(source: Source, struct: Struct) -> None:
    parameters = ["self", "*", *(_parameter(source, field) for field in struct.fields)]
    with source.function("__init__", parameters, "None"):
        for field in struct.fields:
            source.line(_assignment(field))


def _parameter(source: Source, field: Field) -> str:
    """None stands for "a new one" where a default is mutable, unless None means null there."""
    if not _is_fresh(field):
        default = default_value(field)
        if default == "ZERO_UUID":
            source.wire(default)
        return f"{field.attribute}: {annotation(field)} = {default}"
    if is_nullable(field):
        return f"{field.attribute}: {annotation(field)} = {source.wire('UNSET')}"
    return f"{field.attribute}: {annotation(field)} | None = None"


def _assignment(field: Field) -> str:
    name = field.attribute
    if not _is_fresh(field):
        return f"self.{name} = {name}"
    absent = "UNSET" if is_nullable(field) else "None"
    return f"self.{name}: {annotation(field)} = {default_value(field)} if {name} is {absent} else {name}"


def _is_fresh(field: Field) -> bool:
    return (field.is_array or field.struct is not None) and field.default != "null"


def _emit_decode(source: Source, message: Message) -> None:
    name = message.root.class_name
    source.line("@classmethod")
    with source.block(f"def decode(cls, buf: Buffer, pos: int, version: int) -> tuple[{name}, int]:"):
        _emit_version_check(source, message)
        source.line("limit = len(buf)")
        with source.block("try:"):
            _emit_choice(source, message, "message, pos = {}(buf, pos, limit, version)", "read")
        with source.block("except (IndexError, struct_error, UnicodeDecodeError) as error:"):
            source.line(f'raise {source.error("MalformedMessage")}(f"{name} version {{version}}: {{error}}") from None')
        with source.block("if pos > limit:"):
            source.line(f'raise MalformedMessage(f"{name} version {{version}}: it ends beyond its bytes")')
        source.line("return message, pos")


def _emit_encode(source: Source, message: Message) -> None:
    name = message.root.class_name
    with source.block("def encode_into(self, out: bytearray, version: int) -> None:"):
        _emit_version_check(source, message)
        with source.block("try:"):
            _emit_choice(source, message, "{}(self, out, version)", "write")
        with source.block("except struct_error as error:"):
            source.line(
                f'raise {source.error("UnencodableValue")}(f"{name} version {{version}}: {{error}}") from error'
            )


def _emit_version_check(source: Source, message: Message) -> None:
    low, high = message.valid.low, message.valid.high
    test = f"version != {low}" if low == high else f"not {low} <= version <= {high}"
    with source.block(f"if {test}:"):
        source.line(f'raise {source.error("UnsupportedVersion")}("{message.root.class_name}", version)')


def _emit_choice(source: Source, message: Message, call: str, verb: str) -> None:
    choices = [call.format(function_name(verb, message.root, flavour)) for flavour in flavours(message, message.root)]
    if len(choices) == 1:
        source.line(choices[0])
        return
    with source.block(f"if version >= {message.flexible_from}:"):
        source.line(choices[0])
    with source.block("else:"):
        source.line(choices[1])

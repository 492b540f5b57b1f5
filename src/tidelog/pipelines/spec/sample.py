"""What the records of a topic are, judged from a few of them: the format of keys and values, and the schema of JSON.

Pure: bytes in, findings out. `first_file.py` writes a pipeline from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidelog.pipelines.spec.inference import Simple, Struct, fields_of, infer, parse_object

JSON_SHARE_MIN = 0.5
"""From this share of JSON objects on a topic is taken for one of JSON, the rest for mistakes."""

EVENT_TIME_NAMES = re.compile(
    r"at|ts|time|timestamp|date|event_?time|event_?ts|event_?timestamp|occurred_?at|created_?at|created|time_?stamp",
    re.IGNORECASE,
)
MAGIC = 0
FRAME_BYTES = 5
"""A schema registry's frame: a zero byte and the id of the schema."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found in a sample."""

    records: int
    tombstones: int = 0
    format: str = "text"
    """As `value:` of a source has it."""
    key: str = "text"
    schema: Struct = field(default_factory=lambda: Struct({}, 0))
    unfit: int = 0
    """Records that the format does not take."""
    framed: str = ""
    """What values that are framed for a schema registry hold: avro, protobuf or json."""
    is_key_framed: bool = False

    @property
    def event_time(self) -> str:
        """The field that says when something happened; empty when none does."""
        fields, _ = fields_of(self.schema)
        times = [name for name, type_ in fields.items() if type_ == Simple("TIMESTAMP")]
        return next((name for name in times if EVENT_TIME_NAMES.fullmatch(name)), times[0] if times else "")


def judge(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Findings:
    """The findings of records: their keys and their values, None where there is none."""
    there = [value for value in values if value is not None]
    known_keys = [key for key in keys if key is not None]
    key_is_framed = bool(known_keys) and all(_is_framed(key) for key in known_keys)
    findings = Findings(
        records=len(values),
        tombstones=len(values) - len(there),
        key="text" if all(_text(key) is not None for key in known_keys) and not key_is_framed else "bytes",
        is_key_framed=key_is_framed,
    )
    if there and all(_is_framed(value) for value in there):
        held = _what_frames_hold([value[FRAME_BYTES:] for value in there])
        name = "bytes" if held == "json" else f"registry-{held}"
        return replace(findings, format=name, framed=held)
    texts = [_text(value) for value in there]
    objects = [found for text in texts if text is not None and (found := parse_object(text)) is not None]
    schema = infer(objects)
    if objects and len(objects) >= JSON_SHARE_MIN * len(there) and fields_of(schema)[0]:
        return replace(findings, format="json", schema=schema, unfit=len(there) - len(objects))
    return replace(findings, format="bytes" if None in texts else "text")


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


# -- frames of a schema registry -----------------------------------------------------------------------------------


def _is_framed(data: bytes) -> bool:
    return len(data) > FRAME_BYTES and data[0] == MAGIC and any(data[1:FRAME_BYTES])


def _what_frames_hold(payloads: Sequence[bytes]) -> str:
    """avro, protobuf or json. Avro has no mark of its own: it is what the others are not."""
    if all((text := _text(payload)) is not None and parse_object(text) is not None for payload in payloads):
        return "json"
    return "protobuf" if all(_is_protobuf(payload) for payload in payloads) else "avro"


def _is_protobuf(payload: bytes) -> bool:
    """The index of the message in its file (a zero for the first), then fields from the first byte to the last."""
    count, position = _varint(payload, 0)
    if position < 0 or count > 20:
        return False
    # ZigZag: the number of indexes, then each of them.
    for _ in range(count // 2):
        _, position = _varint(payload, position)
        if position < 0:
            return False
    return _is_message(payload, position)


def _is_message(data: bytes, position: int) -> bool:
    while position < len(data):
        tag, position = _varint(data, position)
        if position < 0 or tag >> 3 == 0:
            return False
        match tag & 7:
            case 0:
                _, position = _varint(data, position)
                if position < 0:
                    return False
            case 1:
                position += 8
            case 2:
                size, position = _varint(data, position)
                if position < 0:
                    return False
                position += size
            case 5:
                position += 4
            case _:
                return False
    return position == len(data)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number and where it ends; -1 when there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    return 0, -1

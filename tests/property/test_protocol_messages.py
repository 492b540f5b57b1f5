"""Any message, any version, any values: the bytes are those of the reference codec, and they come back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol.reference import RANGES, SCHEMAS, Field, Schema

from tidelog.protocol.errors import MalformedMessage

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(low, high) for name, (low, high) in RANGES.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=300),
    "records": st.binary(max_size=300),
}


def values(schema: Schema, version: int, struct_name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            field.name: value(schema, version, field) if field.exists(version) else st.just(schema.default(field))
            for field in schema.structs[struct_name]
        }
    )


def value(schema: Schema, version: int, field: Field) -> st.SearchStrategy[Any]:
    if field.is_array:
        strategy: st.SearchStrategy[Any] = st.lists(value(schema, version, field.element), max_size=4)
    elif field.type in schema.structs:
        strategy = values(schema, version, field.type)
    else:
        strategy = SCALARS[field.type]
    if field.may_be_null(version):
        strategy = st.none() | strategy
    return st.just(schema.default(field)) | strategy if field.tag >= 0 else strategy


@st.composite
def messages(draw: st.DrawFn) -> tuple[Schema, int, dict[str, Any]]:
    schema = draw(st.sampled_from(SCHEMAS))
    version = draw(st.sampled_from(schema.versions))
    return schema, version, draw(values(schema, version, schema.name))


@settings(max_examples=400, deadline=None)
@given(messages())
def test_protocol_messages_round_trip(case: tuple[Schema, int, dict[str, Any]]) -> None:
    schema, version, content = case
    message = schema.build(content)
    data = message.encode(version)
    assert data == schema.encode(content, version)
    assert schema.message_class.decode(data, 0, version) == (message, len(data))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_protocol_decoding_any_bytes_raises_only_malformed_message(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))
    version = data.draw(st.sampled_from(schema.versions))
    try:
        message, end = schema.message_class.decode(frame := data.draw(st.binary(max_size=120)), 0, version)
    except MalformedMessage:
        return
    assert 0 <= end <= len(frame)
    # As text, because a float that is not a number does not equal itself.
    assert repr(schema.message_class.decode(message.encode(version), 0, version)[0]) == repr(message)

"""Protobuf as columns: which ones a message has, what bytes become, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark")
from google.protobuf import descriptor_pb2
from tests.pipelines.messages import FULL, ORDER, PACKAGE, add, described, full_order, message_class, order_file

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats.protobuf_codec import message_codec
from tidelog.pipelines.formats.protobuf_schema import COLUMNS_MAX, find_message, message_columns
from tidelog.pipelines.formats.protobuf_worker import PATH_MAX, decode_path, encode_path, open_frame

ORDERS = described(order_file())
TIMES = {
    "at": datetime(2026, 11, 17, 1, 2, 3, 4, tzinfo=UTC),
    "took": timedelta(microseconds=-1_500_000),
}


def test_the_columns_are_those_of_sparks_own_function() -> None:
    assert message_columns(find_message(ORDERS, ORDER)).simpleString() == (
        "struct<id:bigint,small:int,large:bigint,ratio:float,price:double,open:boolean,name:string,raw:binary,"
        "state:string,first:struct<item:string,count:int>,lines:array<struct<item:string,count:int>>,scores:array<int>,"
        "labels:map<string,bigint>,at:timestamp,took:interval day to second,card:string,cash:int>"
    )


def test_every_field_is_read_and_written() -> None:
    codec, kind = message_codec(ORDERS, ORDER), message_class(ORDERS, ORDER)
    original = full_order(kind)
    columns, bad = codec.decode([original.SerializeToString(), None, b""])
    assert bad == [False, False, False]
    full, null, empty = columns.to_pylist()
    assert null is None
    full["labels"] = dict(full["labels"])
    assert full == FULL | TIMES
    # What has presence and was left out is null, all else has Protobuf's default.
    assert empty == {
        **dict.fromkeys(("id", "small", "large"), 0),
        "ratio": 0.0,
        "price": 0.0,
        "open": False,
        "name": "",
        "raw": b"",
        "state": "NEW",
        "lines": [],
        "scores": [],
        "labels": [],
        **dict.fromkeys(("first", "at", "took", "card", "cash")),
    }
    written = codec.encode(columns.to_pylist())
    assert kind.FromString(written[0] or b"") == original
    assert written[1:] == [None, b""]


def test_bytes_that_are_no_message_are_bad_and_only_they() -> None:
    codec, kind = message_codec(ORDERS, ORDER), message_class(ORDERS, ORDER)
    far = kind(id=1)
    far.at.seconds = 2**62
    bad = [
        b"\xff\xff",  # a tag without an end
        b"\x0a\x05ab",  # shorter than it says
        b"\x0d\x01\x00\x00\x00",  # a field of another wire type
        kind(id=1, name="ab").SerializeToString().replace(b"ab", b"\xff\xfe"),
        far.SerializeToString(),  # past the end of time
    ]
    good = kind(id=2).SerializeToString()
    columns, found = codec.decode([good, *bad, good])
    assert found == [False, *[True] * len(bad), False]
    assert [row and row["id"] for row in columns.to_pylist()] == [2, *[None] * len(bad), 2]


def test_an_enum_without_a_name_has_the_name_that_java_gives_it() -> None:
    codec, kind = message_codec(ORDERS, ORDER), message_class(ORDERS, ORDER)
    columns, bad = codec.decode([kind(state=7).SerializeToString()])
    assert (columns.to_pylist()[0]["state"], bad) == ("UNKNOWN_ENUM_VALUE_State_7", [False])


def test_required_fields_and_defaults_of_the_old_syntax() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package=PACKAGE, syntax="proto2")
    old = file.message_type.add(name="Old")
    add(old, "id", 1, "int32").label = descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED
    add(old, "size", 2, "int32").default_value = "5"
    add(old, "note", 3, "string")
    codec = message_codec(described(file), f"{PACKAGE}.Old")
    columns, bad = codec.decode([b"\x08\x01", b""])
    assert (columns.to_pylist(), bad) == ([{"id": 1, "size": 5, "note": None}, None], [False, True])
    with pytest.raises(PipelineError, match=r"a row does not fit the Protobuf message .*Old: .*id"):
        codec.encode([{"id": None, "size": 1}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"state": "LOST"}, "state is 'LOST', not one of NEW, PAID"),
        ({"scores": [1, None]}, "scores has an element that is null"),
        ({"lines": [None]}, "lines has an element that is null"),
        ({"labels": [("a", None)]}, "labels has an element that is null"),
        ({"id": 2**63}, "out of range"),
    ],
)
def test_a_row_that_does_not_fit_is_told(row: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        message_codec(ORDERS, ORDER).encode([row])


def test_descriptors_that_cannot_be_columns() -> None:
    with pytest.raises(PipelineError, match=f"no message no.Such in .*; there is {PACKAGE}.Note, {ORDER}"):
        find_message(ORDERS, "no.Such")
    for data in (b"", b"no descriptor", ORDERS[:-3]):
        with pytest.raises(PipelineError, match="this is no Protobuf descriptor"):
            find_message(data, ORDER)
    tree = descriptor_pb2.FileDescriptorProto(name="tree.proto", package=PACKAGE, syntax="proto3")
    add(tree.message_type.add(name="Tree"), "children", 1, f".{PACKAGE}.Tree", repeated=True)
    with pytest.raises(PipelineError, match="Tree cannot be columns: it contains itself"):
        message_columns(find_message(described(tree), f"{PACKAGE}.Tree"))
    alone = descriptor_pb2.FileDescriptorSet(
        file=[descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["b.proto"], syntax="proto3")]
    )
    with pytest.raises(PipelineError, match=r"a\.proto of the Protobuf descriptor: .*include_imports"):
        find_message(alone.SerializeToString(), "A")


def test_a_few_messages_that_describe_millions_of_fields_are_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="wide.proto", package=PACKAGE, syntax="proto3")
    for depth in range(20):
        message = file.message_type.add(name=f"M{depth}")
        for number in (1, 2):
            add(message, f"f{number}", number, f".{PACKAGE}.M{depth + 1}" if depth < 19 else "int32")
    with pytest.raises(PipelineError, match=f"has more than {COLUMNS_MAX:,} fields"):
        message_columns(find_message(described(file), f"{PACKAGE}.M0"))


@pytest.mark.parametrize("path", [(0,), (1,), (1, 0), (0, 300, 5), (0,) * PATH_MAX])
def test_paths_of_messages_in_a_frame(path: tuple[int, ...]) -> None:
    encoded = encode_path(path)
    assert decode_path(b"x" + encoded + b"\x08\x01", 1) == (path, 1 + len(encoded))


def test_paths_are_encoded_as_other_clients_do() -> None:
    assert encode_path((0,)) == b"\x00"
    assert encode_path((1,)) == b"\x02\x02"
    assert encode_path((1, 0)) == b"\x04\x02\x00"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "not framed"),
        (b"\x00\x00\x00\x00\x01", "not framed"),
        (b"\x01\x00\x00\x00\x01\x00", "not framed"),
        (b"\x00\x00\x00\x00\x01\x80", "not framed"),
        (b"\x00\x00\x00\x00\x01" + encode_path((0,) * (PATH_MAX + 1)), "not framed"),
        (b"\x00\x00\x00\x00\x01" + b"\xff" * 20, "not framed"),
        (b"\x00\x00\x00\x00\x01\x01", "not framed"),
        (b"\x00\x00\x00\x00\x00\x00", "schema id 0 is not one of subject s"),
        (b"\x00\x00\x00\x00\x01\x02\x08", r"schema id 1 has no message at \[4\]"),
        (b"\x00\x00\x00\x00\x01\x02\x02", "the message B, not A"),
    ],
)
def test_frames_that_hold_no_message_for_us(record: bytes, reason: str) -> None:
    payload, found = open_frame(record, "A", {1: {(0,): "A", (1,): "B"}}, "s")
    assert payload is None
    assert re.search(reason, found or "")


def test_a_schema_that_came_after_the_query_stops_it() -> None:
    with pytest.raises(RuntimeError, match="schema id 2 is newer than the versions of s"):
        open_frame(b"\x00\x00\x00\x00\x02\x00", "A", {1: {(0,): "A"}}, "s")

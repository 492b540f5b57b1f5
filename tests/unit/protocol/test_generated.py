"""Every message in every version: bytes as the reference codec writes them, and back to the same object."""

from __future__ import annotations

import random
import struct

import pytest
from tests.unit.protocol.reference import BY_NAME, SCHEMAS, Schema

from tidelog.protocol.errors import MalformedMessage, UnencodableValue, UnsupportedField, UnsupportedVersion
from tidelog.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.metadata import MetadataRequest
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.index import ApiKey, api_name

ids = [schema.name for schema in SCHEMAS]


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_bytes_are_those_of_the_definition_and_come_back_as_the_same_message(schema: Schema) -> None:
    chance = random.Random(schema.name)
    for version in schema.versions:
        for _ in range(6):
            values = schema.random_values(chance, version)
            message = schema.build(values)
            expected = schema.encode(values, version)
            assert message.encode(version) == expected, (version, values)
            for buffer in (expected, bytearray(expected), memoryview(expected)):
                decoded, end = schema.message_class.decode(buffer, 0, version)
                assert end == len(expected)
                assert decoded == message, (version, values)


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_defaults_are_those_of_the_definition(schema: Schema) -> None:
    message = schema.message_class()
    assert message == schema.build({field.name: schema.default(field) for field in schema.structs[schema.name]})
    assert (schema.versions[0], schema.versions[-1]) == (message.MIN_VERSION, message.MAX_VERSION)


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_a_value_the_version_cannot_carry_is_refused_unless_it_may_be_dropped(schema: Schema) -> None:
    chance = random.Random(schema.name)
    for version in schema.versions:
        plain = {field.name: schema.default(field) for field in schema.structs[schema.name]}
        for field in schema.structs[schema.name]:
            is_null_allowed = field.default != "null" or field.may_be_null(version)
            if field.exists(version) and field.tag < 0 and not is_null_allowed:
                plain[field.name] = schema.random_value(chance, version, field._replace(nullable=(0, -1)))
        for field in schema.structs[schema.name]:
            if field.exists(version):
                continue
            value = schema.default(field)
            while value == schema.default(field) or value is None:
                value = schema.random_value(chance, max(field.versions[0], schema.versions[0]), field)
            message = schema.build({**plain, field.name: value})
            if field.ignorable:
                assert message.encode(version) == schema.encode(plain, version)
            else:
                with pytest.raises(UnsupportedField, match=field.name):
                    message.encode(version)


def test_null_is_refused_where_the_version_knows_none() -> None:
    assert MetadataRequest(topics=None).encode(1) == b"\xff\xff\xff\xff"
    with pytest.raises(UnsupportedField, match=r"MetadataRequest\.topics"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(MalformedMessage, match="topics is null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0, 0)


def test_every_definition_is_there() -> None:
    requests = {schema.name for schema in SCHEMAS if schema.name.endswith("Request")}
    responses = {schema.name for schema in SCHEMAS if schema.name.endswith("Response")}
    assert {name.removesuffix("Request") for name in requests} == {name.removesuffix("Response") for name in responses}
    assert {name.removesuffix("Request") for name in requests} == {api_name(key) for key in ApiKey}
    records = {"TopicRecord", "OffsetCommitValue", "TransactionLogValue", "ProducerSnapshot", "QuorumStateData"}
    assert records <= BY_NAME.keys()


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (ApiVersionsRequest(), 0, ""),
        (ApiVersionsRequest(client_software_name="tide", client_software_version="1"), 3, "05 74696465 02 31 00"),
        (ApiVersionsResponse(error_code=35), 0, "0023 00000000"),
        (FindCoordinatorRequest(key="g"), 0, "0001 67"),
        (FindCoordinatorRequest(coordinator_keys=["g"], key_type=1), 4, "01 02 02 67 00"),
        (
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)]),
            7,
            "02 02 74 ffffffff ffff 01 01 00 0000ea60 00 00",
        ),
        (
            ProduceRequest(
                acks=-1,
                timeout_ms=1500,
                topic_data=[
                    TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2, records=b"\x09\x08")])
                ],
            ),
            3,
            "ffff ffff 000005dc 00000001 0001 74 00000001 00000002 00000002 0908",
        ),
    ],
)
def test_bytes_worked_out_by_hand(message: object, version: int, expected: str) -> None:
    assert message.encode(version).hex() == expected.replace(" ", "")  # type: ignore[attr-defined]


def test_versions_outside_the_definition_are_refused() -> None:
    for version in (-1, 1, 8):
        with pytest.raises(UnsupportedVersion):
            CreateTopicsRequest.decode(b"", 0, version)
        with pytest.raises(UnsupportedVersion):
            CreateTopicsRequest().encode(version)


def test_bytes_after_the_message_are_left_alone() -> None:
    body = FindCoordinatorRequest(key="group").encode(0)
    assert FindCoordinatorRequest.decode(b"..." + body + b"more", 3, 0) == (
        FindCoordinatorRequest(key="group"),
        3 + len(body),
    )


def test_unknown_tagged_fields_are_skipped() -> None:
    body = ApiVersionsRequest(client_software_name="a", client_software_version="b").encode(3)
    tagged = body[:-1] + b"\x02" + b"\x05\x01x" + b"\xff\xff\x03\x00"
    assert ApiVersionsRequest.decode(tagged, 0, 3)[0] == ApiVersionsRequest.decode(body, 0, 3)[0]


def test_a_tagged_field_of_the_wrong_size_is_refused() -> None:
    fetch = BY_NAME["FetchRequest"]
    body = fetch.build({f.name: fetch.default(f) for f in fetch.structs["FetchRequest"]}).encode(12)
    assert body.endswith(b"\x01\x00")
    assert fetch.message_class.decode(body[:-1] + b"\x01\x00\x03\x03ab", 0, 12)[0].cluster_id == "ab"  # type: ignore[attr-defined]
    for wrong in (b"\x01\x00\x02\x03ab", b"\x01\x00\x04\x03abc"):
        with pytest.raises(MalformedMessage):
            fetch.message_class.decode(body[:-1] + wrong, 0, 12)


def test_values_out_of_range_are_refused_when_written() -> None:
    assert len(FindCoordinatorRequest(key="x" * 32767).encode(0)) == 2 + 32767
    for version in (0, 3):
        with pytest.raises(UnencodableValue):
            FindCoordinatorRequest(key="x" * 32768).encode(version)
    with pytest.raises(UnencodableValue):
        CreateTopicsResponse(throttle_time_ms=2**31).encode(5)


def test_strings_above_32767_bytes_are_refused_when_read() -> None:
    longest = FindCoordinatorRequest(key="x" * 32767).encode(3)
    assert FindCoordinatorRequest.decode(longest, 0, 3)[0].key == "x" * 32767
    size = b"\x81\x80\x02"
    assert longest[:3] == b"\x80\x80\x02"
    with pytest.raises(MalformedMessage, match="32767"):
        FindCoordinatorRequest.decode(size + b"x" * 32768 + b"\x00\x00", 0, 3)


def test_records_are_not_copied() -> None:
    body = bytearray(
        ProduceRequest(
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"abcd")])]
        ).encode(9)
    )
    request, _ = ProduceRequest.decode(body, 0, 9)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    body[body.index(b"abcd")] = ord("z")
    assert bytes(records) == b"zbcd"


def test_messages_compare_and_print_by_their_fields() -> None:
    assert CreatableTopic(name="t") == CreatableTopic(name="t")
    assert CreatableTopic(name="t") != CreatableTopic(name="u")
    assert CreatableTopic(name="t") != "t"
    assert repr(CreatableTopic(name="t")).startswith("CreatableTopic(name='t', num_partitions=0,")
    first, second = CreateTopicsRequest(), CreateTopicsRequest()
    assert first.topics is not second.topics


def test_the_reference_agrees_with_struct_on_a_simple_message() -> None:
    schema = BY_NAME["EndTxnMarker"]
    assert schema.encode({"coordinator_epoch": 7}, 0) == struct.pack(">i", 7)

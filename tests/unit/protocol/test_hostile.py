"""Bytes from a hostile peer: only MalformedMessage comes out of them, and no more memory than they justify."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from tests.unit.protocol.reference import SCHEMAS, Schema, varint

from tidelog.model.limits import TAGGED_FIELDS_MAX
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.create_topics import CreateTopicsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.metadata import MetadataRequest
from tidelog.protocol.generated.produce import ProduceRequest

ids = [schema.name for schema in SCHEMAS]
PEAK_BYTES_MAX = 400_000
HUGE = [
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\xff" * 6,
    b"\x80" * 6,
    b"\x00\x0f\xff\xff",
]


def decodes(schema: Schema, data: bytes, version: int) -> bool:
    try:
        schema.message_class.decode(data, 0, version)
    except MalformedMessage:
        return False
    return True


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_every_cut_message_is_refused(schema: Schema) -> None:
    chance = random.Random(schema.name)
    for version in schema.versions:
        data = schema.encode(schema.random_values(chance, version), version)
        cuts = range(len(data)) if len(data) < 80 else sorted(chance.sample(range(len(data)), 80))
        for cut in cuts:
            assert not decodes(schema, data[:cut], version), (version, cut, data)


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_mutated_messages_are_read_or_refused(schema: Schema) -> None:
    chance = random.Random(schema.name)
    for version in schema.versions:
        data = schema.encode(schema.random_values(chance, version), version)
        for _ in range(60):
            mutant = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                at = chance.randint(0, len(mutant))
                match chance.randint(0, 3):
                    case 0:
                        mutant[at : at + 1] = chance.randbytes(1)
                    case 1:
                        del mutant[at : at + chance.randint(1, 8)]
                    case 2:
                        mutant[at:at] = chance.randbytes(chance.randint(1, 8))
                    case _:
                        mutant[at : at + 4] = chance.choice(HUGE)
            decodes(schema, bytes(mutant), version)
        for _ in range(10):
            decodes(schema, chance.randbytes(chance.randint(0, 64)), version)


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_no_claimed_size_makes_a_message_allocate_much(schema: Schema) -> None:
    chance = random.Random(schema.name)
    tracemalloc.start()
    try:
        for version in {schema.versions[0], schema.versions[-1]}:
            data = schema.encode(schema.random_values(chance, version), version)
            decodes(schema, data, version)
            for at in chance.sample(range(len(data) + 1), min(12, len(data) + 1)):
                for claim in HUGE:
                    mutant = data[:at] + claim + data[at + len(claim) :]
                    tracemalloc.reset_peak()
                    before = tracemalloc.get_traced_memory()[0]
                    decodes(schema, mutant, version)
                    assert tracemalloc.get_traced_memory()[1] - before < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_twelve_bytes_that_claim_two_thousand_million_topics() -> None:
    body = b"\x00" + b"\xff\xff" + b"\x00\x00\x05\xdc" + b"\xff\xff\xff\xff\x07"
    assert len(body) == 12
    with pytest.raises(MalformedMessage, match="more elements than bytes"):
        ProduceRequest.decode(body, 0, 9)


def test_an_array_may_claim_exactly_what_its_bytes_can_hold() -> None:
    # An element of CreateTopicsRequest.topics takes at least ten bytes in flexible versions.
    element = b"\x02t" + b"\x00\x00\x00\x01\x00\x01" + b"\x01\x01\x00"
    rest = b"\x00\x00\x00\x00\x00\x00"
    assert len(CreateTopicsRequest.decode(b"\x03" + element * 2 + rest, 0, 7)[0].topics) == 2
    with pytest.raises(MalformedMessage):
        CreateTopicsRequest.decode(b"\x04" + element * 2, 0, 7)


def test_tagged_fields_are_counted() -> None:
    def body(count: int) -> bytes:
        return b"\x02a\x02b" + varint(count) + b"".join(varint(tag) + b"\x00" for tag in range(count))

    assert ApiVersionsRequest.decode(body(TAGGED_FIELDS_MAX), 0, 3)[0].client_software_name == "a"
    with pytest.raises(MalformedMessage, match=str(TAGGED_FIELDS_MAX)):
        ApiVersionsRequest.decode(body(TAGGED_FIELDS_MAX + 1), 0, 3)


def test_a_tagged_field_that_reaches_beyond_the_message_is_refused() -> None:
    ApiVersionsRequest.decode(b"\x02a\x02b\x01\x09\x03xyz", 0, 3)
    with pytest.raises(MalformedMessage, match="beyond"):
        ApiVersionsRequest.decode(b"\x02a\x02b\x01\x09\x04xyz", 0, 3)


def test_invalid_utf8_and_nulls_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="utf-8"):
        FindCoordinatorRequest.decode(b"\x00\x02\xff\xfe", 0, 0)
    with pytest.raises(MalformedMessage, match="key is null"):
        FindCoordinatorRequest.decode(b"\xff\xff", 0, 0)
    with pytest.raises(MalformedMessage, match="key is null"):
        FindCoordinatorRequest.decode(b"\x00\x00\x00", 0, 3)
    with pytest.raises(MalformedMessage, match="coordinator_keys holds a null"):
        FindCoordinatorRequest.decode(b"\x00\x02\x00\x00", 0, 4)


def test_overlong_sizes_are_refused() -> None:
    assert MetadataRequest.decode(b"\x81\x00" + b"\x01\x00\x00\x00", 0, 9)[0].topics == []
    with pytest.raises(MalformedMessage, match="31 bits"):
        MetadataRequest.decode(b"\x81\x80\x80\x80\x80\x00" + b"\x01\x00\x00\x00", 0, 9)

"""The same bytes as clients that were written elsewhere: each reads what is written here and writes it back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.unit.protocol.other_clients import aiokafka_classes, kafka_python_classes, schema_of
from tests.unit.protocol.reference import BY_NAME

KNOWN_WRONG = {
    "ApiVersionsResponse": "kafka-python reads an error as version 0, whatever the version",
    "DeleteTopicsRequest": "kafka-python cannot write what it has read",
    "DescribeAclsRequest_v2": "aiokafka writes version 2 in the format of version 1",
    "DescribeAclsResponse_v2": "aiokafka reads version 2 in the format of version 1",
    "OffsetRequest_v4": "aiokafka takes the current leader epoch for 64 bits",
    "OffsetRequest_v5": "aiokafka takes the current leader epoch for 64 bits",
}


def marked(classes: list[Any]) -> list[Any]:
    return [
        pytest.param(
            each,
            id=each.__name__,
            marks=[pytest.mark.xfail(reason=KNOWN_WRONG[each.__name__])] if each.__name__ in KNOWN_WRONG else [],
        )
        for each in classes
    ]


@pytest.mark.parametrize("other", marked(kafka_python_classes()))
def test_kafka_python_reads_it_and_writes_the_same(other: Any) -> None:
    schema = BY_NAME[other.__name__]
    chance = random.Random(schema.name)
    versions = [version for version in schema.versions if version <= other.max_version]
    assert versions
    for version in versions:
        for _ in range(4):
            data = schema.build(schema.random_values(chance, version)).encode(version)
            assert bytes(other.decode(data, version=version).encode()) == data, version


@pytest.mark.parametrize("other", marked(aiokafka_classes()))
def test_aiokafka_reads_it_and_writes_the_same(other: Any) -> None:
    schema = schema_of(other)
    chance = random.Random(other.__name__)
    for _ in range(4):
        data = schema.build(schema.random_values(chance, other.API_VERSION)).encode(other.API_VERSION)
        assert other.decode(data).encode() == data


def test_the_others_cover_what_matters() -> None:
    assert {"ProduceRequest", "FetchResponse", "MetadataResponse", "JoinGroupRequest", "OffsetFetchResponse"} <= {
        each.__name__ for each in kafka_python_classes()
    }
    assert len(kafka_python_classes()) > 90
    assert len(aiokafka_classes()) > 100

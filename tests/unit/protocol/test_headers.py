"""Request and response headers, and the index of APIs they depend on."""

from __future__ import annotations

import random

import pytest
from tests.unit.protocol.other_clients import KafkaPythonRequestHeader

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from tidelog.protocol.index import (
    ApiKey,
    api_name,
    is_flexible,
    is_response_header_flexible,
    metadata_record_class,
    request_class,
    response_class,
    schema_versions,
)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 100])
@pytest.mark.parametrize(("version", "flexible"), [(8, False), (9, True)])
def test_a_request_header_comes_back(client_id: str | None, version: int, flexible: bool) -> None:
    header = encode_request_header(ApiKey.PRODUCE, version, 77, client_id)
    assert len(header) == 10 + len((client_id or "").encode()) + flexible
    for frame in (header + b"body", bytearray(header + b"body"), memoryview(header + b"body")):
        assert decode_request_header(frame) == RequestHeader(0, version, 77, client_id, len(header))


@pytest.mark.parametrize("flexible", [False, True])
def test_a_request_header_is_what_another_client_writes(flexible: bool) -> None:
    other = KafkaPythonRequestHeader(
        request_api_key=18, request_api_version=3 if flexible else 2, correlation_id=5, client_id="kp"
    )
    assert other.encode(flexible=flexible) == encode_request_header(18, 3 if flexible else 2, 5, "kp")


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header = encode_request_header(18, 3, 1, "c")[:-1] + b"\x01\x07\x02ab"
    assert decode_request_header(header + b"body").body_position == len(header)


def test_a_version_yet_unknown_is_read_like_the_last_known() -> None:
    header = encode_request_header(18, 99, 1, "c")
    assert decode_request_header(header).body_position == len(header)
    assert header.endswith(b"c\0")


def test_no_bytes_but_a_header_are_taken_for_one() -> None:
    header = encode_request_header(0, 9, 77, "client") + b""
    for cut in range(len(header)):
        with pytest.raises(MalformedMessage):
            decode_request_header(header[:cut])
    with pytest.raises(MalformedMessage):
        decode_request_header(b"\0\0\0\1\0\0\0\1\0\2\xff\xff")
    chance = random.Random(7)
    for _ in range(3000):
        try:
            decode_request_header(chance.randbytes(chance.randint(0, 30)))
        except MalformedMessage:
            continue


def test_response_headers() -> None:
    assert encode_response_header(7, False) == b"\0\0\0\x07"
    assert encode_response_header(7, True) == b"\0\0\0\x07\0"
    assert decode_response_header(b"\0\0\0\x07\0body", True) == (7, 5)
    assert decode_response_header(b"\0\0\0\x07body", False) == (7, 4)
    with pytest.raises(MalformedMessage):
        decode_response_header(b"\0\0\0\x07", True)


def test_the_response_header_of_api_versions_is_never_flexible() -> None:
    assert is_flexible(ApiKey.API_VERSIONS, 3)
    assert not is_response_header_flexible(ApiKey.API_VERSIONS, 4)
    assert is_response_header_flexible(ApiKey.FETCH, 12)
    assert not is_response_header_flexible(ApiKey.FETCH, 11)


def test_sasl_handshake_is_never_flexible() -> None:
    assert not is_flexible(ApiKey.SASL_HANDSHAKE, 1)


@pytest.mark.parametrize("api_key", list(ApiKey))
def test_every_api_has_its_classes(api_key: ApiKey) -> None:
    request, response = request_class(api_key), response_class(api_key)
    assert request.API_KEY == response.API_KEY == api_key
    assert request.__name__ == f"{api_name(api_key)}Request"
    assert response.__name__ == f"{api_name(api_key)}Response"
    assert request.MIN_VERSION == response.MIN_VERSION
    assert request.MAX_VERSION == response.MAX_VERSION
    assert schema_versions(api_key)[0] == request.MIN_VERSION
    for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
        assert is_flexible(api_key, version) == (request.FLEXIBLE_FROM is not None and version >= request.FLEXIBLE_FROM)


def test_a_version_that_is_not_stable_is_left_out() -> None:
    assert schema_versions(ApiKey.INIT_PRODUCER_ID) == (0, 5)
    assert request_class(ApiKey.INIT_PRODUCER_ID).MAX_VERSION == 6


def test_what_does_not_exist_has_no_class() -> None:
    with pytest.raises(BrokerError) as caught:
        request_class(4)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert api_name(9999) == "9999"
    assert metadata_record_class(2) is TopicRecord
    with pytest.raises(BrokerError):
        metadata_record_class(999)

"""Every error of a node has a number that begins with the status, and no status is 500 but for faults of the node."""

from __future__ import annotations

import json

import pytest

from tidelog.gateways.http.errors import UNEXPECTED
from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.http.proxy.errors import ProxyError, respond_to_v2_fault, respond_to_v3_fault
from tidelog.model.errors import BrokerError, ErrorCode

ERRORS = [code for code in ErrorCode if code is not ErrorCode.NONE]
OF_THE_NODE = {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE}


@pytest.mark.parametrize("respond", [respond_to_v2_fault, respond_to_v3_fault])
@pytest.mark.parametrize("code", ERRORS, ids=lambda code: code.name)
def test_any_error(code: ErrorCode, respond: object) -> None:
    assert callable(respond)
    response = respond(BrokerError(code))
    body = json.loads(response.body)
    assert body["message"]
    kafka_errors = (50002, 50003)
    assert body["error_code"] in kafka_errors or str(body["error_code"]).startswith(str(response.status))
    assert response.status != 500 or code in OF_THE_NODE
    if response.status == 503:
        assert response.headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    ("code", "v2", "v3"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 40401, 40403),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 40301, 40301),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, 40002, 40002),
        (ErrorCode.OFFSET_OUT_OF_RANGE, 40002, 40002),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 40903, 40002),
        (ErrorCode.UNKNOWN_MEMBER_ID, 40903, 40903),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 42901, 42901),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 50003, 50003),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 50002, 50002),
    ],
)
def test_numbers(code: ErrorCode, v2: int, v3: int) -> None:
    assert json.loads(respond_to_v2_fault(BrokerError(code)).body)["error_code"] == v2
    assert json.loads(respond_to_v3_fault(BrokerError(code)).body)["error_code"] == v3


def test_errors_of_the_door() -> None:
    own = respond_to_v2_fault(ProxyError(40403, "There is none."))
    assert (own.status, own.content_type) == (404, "application/vnd.kafka.v2+json")
    assert own.body == b'{"error_code":40403,"message":"There is none."}'
    other = respond_to_v3_fault(HttpError(400, "Wrong.", headers={"X-A": "b"}))
    assert (other.status, other.content_type, other.headers) == (400, "application/json", {"X-A": "b"})
    assert json.loads(respond_to_v3_fault(UNEXPECTED).body)["error_code"] == 500

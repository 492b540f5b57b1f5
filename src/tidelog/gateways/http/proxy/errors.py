"""Errors as clients of the REST Proxy know them: a number that says more than the HTTP status, and a sentence."""

from __future__ import annotations

from typing import Final

from tidelog.gateways.http.errors import status_of
from tidelog.gateways.http.messages import JSON, HttpError, Response, encode_json
from tidelog.model.errors import BrokerError, ErrorCode

V2: Final = "application/vnd.kafka.v2+json"
"""The media type of v2's bodies that hold no records."""

UNPROCESSABLE: Final = 422
"""A body that is JSON, and not what the call takes."""
BAD_REQUEST: Final = 40002
"""What a node refuses because of how it was asked."""
FORBIDDEN: Final = 40301
TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
INSTANCE_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
INSTANCE_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
INVALID_CONSUMER_CONFIG: Final = 42204
TOO_MANY_REQUESTS: Final = 42901
KAFKA_ERROR: Final = 50002
RETRIABLE_KAFKA_ERROR: Final = 50003

V3_NOT_FOUND: Final = 40403
"""v3's number for topics and partitions alike."""

_TOPIC_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class ProxyError(HttpError):
    """An error with a number of the REST Proxy, which begins with the HTTP status."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number if number < 1000 else number // 100, message)
        self.number: Final = number


def number_of(error: BrokerError) -> int:
    """The number of an error that a node answers, for a record or for a request."""
    status = status_of(error)
    if error.code in _TOPIC_UNKNOWN:
        return TOPIC_NOT_FOUND
    if status == 403:
        return FORBIDDEN
    if status == 409:
        return ILLEGAL_STATE
    if status == 429:
        return TOO_MANY_REQUESTS
    if status in (400, 416):
        return BAD_REQUEST
    if status in (404, 413):
        return status
    return RETRIABLE_KAFKA_ERROR if error.code.is_retriable else KAFKA_ERROR


def respond_to_v2_fault(fault: HttpError | BrokerError) -> Response:
    if isinstance(fault, BrokerError):
        return _respond(_status_of(fault), number_of(fault), fault.message, V2)
    return _respond_to_http_error(fault, V2)


def respond_to_v3_fault(fault: HttpError | BrokerError) -> Response:
    if not isinstance(fault, BrokerError):
        return _respond_to_http_error(fault, JSON)
    number, status = number_of(fault), _status_of(fault)
    if number == TOPIC_NOT_FOUND:
        number = V3_NOT_FOUND
    elif fault.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        number, status = BAD_REQUEST, 400
    return _respond(status, number, fault.message, JSON)


def _respond_to_http_error(fault: HttpError, media_type: str) -> Response:
    number = fault.number if isinstance(fault, ProxyError) else fault.status
    response = _respond(fault.status, number, fault.message, media_type)
    if fault.headers:
        return Response(response.body, status=fault.status, content_type=media_type, headers=fault.headers)
    return response


def _status_of(fault: BrokerError) -> int:
    # An offset that is not there is a bad request to clients of the proxy.
    status = status_of(fault)
    return 400 if status == 416 else status


def _respond(status: int, number: int, message: str, media_type: str) -> Response:
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    body = encode_json({"error_code": number, "message": message})
    return Response(body, status=status, content_type=media_type, headers=headers)

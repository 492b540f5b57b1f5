"""Errors of the HTTP door: which status says what, and the one JSON object that says it."""

from __future__ import annotations

from typing import Final

from tidelog.gateways.http.messages import HttpError, Response, json_response
from tidelog.model.errors import BrokerError, ErrorCode

STATUS_OF: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.POLICY_VIOLATION: 403,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.REBALANCE_IN_PROGRESS: 409,
    ErrorCode.UNKNOWN_MEMBER_ID: 409,
    ErrorCode.ILLEGAL_GENERATION: 409,
    ErrorCode.FENCED_INSTANCE_ID: 409,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: 504,
    ErrorCode.CORRUPT_MESSAGE: 500,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
}
"""Of the others, what may go well later is 503, and what the client has got wrong 400."""


def status_of(error: BrokerError) -> int:
    known = STATUS_OF.get(error.code)
    if known is not None:
        return known
    return 503 if error.code.is_retriable else 400


def respond_to_fault(fault: HttpError | BrokerError) -> Response:
    if isinstance(fault, HttpError):
        error = {"code": fault.status, "message": fault.message, "kafkaError": fault.kafka_error}
        return json_response(error, status=fault.status, headers=fault.headers)
    status = status_of(fault)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    error = {"code": status, "message": fault.message, "kafkaError": fault.code.name}
    return json_response(error, status=status, headers=headers)


UNEXPECTED: Final = HttpError(500, "The node has met an unexpected error; its log says more.")

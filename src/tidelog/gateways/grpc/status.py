"""How an error of the log travels as a gRPC status.

The code is gRPC's, for programs that only look at that. The details say what Kafka says: a google.rpc.Status with one
ErrorInfo (reason: Kafka's name of the error; metadata: its number and whether it is worth a retry), as gRPC's status
libraries read it. `kafka-error` in the trailing metadata has the name for everybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from tidelog.gateways.grpc.generated.status_pb2 import Any as PackedDetail
from tidelog.gateways.grpc.generated.status_pb2 import ErrorInfo, Status
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

DETAILS_KEY: Final = "grpc-status-details-bin"
NAME_KEY: Final = "kafka-error"
DOMAIN: Final = "tidelog"
ERROR_INFO_TYPE: Final = "type.googleapis.com/google.rpc.ErrorInfo"

_INVALID: Final = (
    ErrorCode.INVALID_FETCH_SIZE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_RECORD,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)
_UNAVAILABLE: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
_STATE: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.TOPIC_DELETION_DISABLED,
)
_DENIED: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)

CODES: Final[Mapping[ErrorCode, Any]] = {
    **dict.fromkeys(_INVALID, grpc.StatusCode.INVALID_ARGUMENT),
    **dict.fromkeys(_UNAVAILABLE, grpc.StatusCode.UNAVAILABLE),
    **dict.fromkeys(_STATE, grpc.StatusCode.FAILED_PRECONDITION),
    **dict.fromkeys(_DENIED, grpc.StatusCode.PERMISSION_DENIED),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: grpc.StatusCode.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: grpc.StatusCode.NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID: grpc.StatusCode.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.OFFSET_OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    ErrorCode.REQUEST_TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorCode.REBALANCE_IN_PROGRESS: grpc.StatusCode.ABORTED,
    ErrorCode.CONCURRENT_TRANSACTIONS: grpc.StatusCode.ABORTED,
    ErrorCode.TRANSACTION_ABORTABLE: grpc.StatusCode.ABORTED,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: grpc.StatusCode.ABORTED,
    ErrorCode.GROUP_MAX_SIZE_REACHED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.UNSUPPORTED_VERSION: grpc.StatusCode.UNIMPLEMENTED,
}
"""What is missing is INTERNAL."""


class Refused(BrokerError):
    """An error whose gRPC code is not the usual one of its Kafka code."""

    def __init__(self, status: Any, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.status = status


def invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)


def status_of(error: BrokerError) -> Any:
    if isinstance(error, Refused):
        return error.status
    return CODES.get(error.code, grpc.StatusCode.INTERNAL)


def trailing_metadata(error: BrokerError) -> tuple[tuple[str, str | bytes], ...]:
    info = ErrorInfo(
        reason=error.code.name,
        domain=DOMAIN,
        metadata={"kafka_code": str(int(error.code)), "retriable": "true" if error.code.is_retriable else "false"},
    )
    detail = PackedDetail(type_url=ERROR_INFO_TYPE, value=info.SerializeToString())
    status = Status(code=status_of(error).value[0], message=error.message, details=[detail])
    return (NAME_KEY, error.code.name), (DETAILS_KEY, status.SerializeToString())

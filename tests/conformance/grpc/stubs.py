"""Clients of the three services, made from the descriptors, and what a refused call says."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# Nodes are started by fork and exec while clients are connected. With its support of forks, gRPC closes descriptors in
# the child that its threads wait on, and the child hangs before it becomes a node.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from tidelog.gateways.grpc.generated import api_pb2, mq_pb2, status_pb2, tidelog_pb2

DEADLINE_S = 20


class Stub:
    """Has a method for each of the service's. A call ends after some seconds, so that no test waits for ever."""

    def __init__(self, channel: grpc.Channel, descriptor: Any) -> None:
        for method in descriptor.methods:
            make = {
                (False, False): channel.unary_unary,
                (True, False): channel.stream_unary,
                (False, True): channel.unary_stream,
                (True, True): channel.stream_stream,
            }[method.client_streaming, method.server_streaming]
            call = make(
                f"/{descriptor.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, Call(call))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)


class Call:
    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, request: Any, timeout: float = DEADLINE_S) -> Any:
        return self._call(request, timeout=timeout)

    def future(self, request: Any) -> Any:
        return self._call.future(request, timeout=DEADLINE_S)


class Client:
    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.mq = Stub(self.channel, mq_pb2.DESCRIPTOR.services_by_name["MessageQueue"])
        self.api = Stub(self.channel, api_pb2.DESCRIPTOR.services_by_name["Kafka"])
        self.log = Stub(self.channel, tidelog_pb2.DESCRIPTOR.services_by_name["Log"])

    def close(self) -> None:
        self.channel.close()


def refusal(error: grpc.RpcError) -> tuple[str, str]:
    """gRPC's code and Kafka's name, which the details and the trailing metadata must agree on."""
    metadata = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    [detail] = status.details
    info = status_pb2.ErrorInfo.FromString(detail.value)
    assert detail.type_url == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (status.code, status.message) == (error.code().value[0], error.details())
    assert (info.reason, info.domain) == (metadata["kafka-error"], "tidelog")
    assert error.details(), "an error has a message"
    return error.code().name, info.reason


def refused(call: Callable[..., Any], request: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        first_answer(call(request))
    return refusal(caught.value)


def first_answer(answer: Any) -> Any:
    """Of a stream, or the answer itself."""
    return next(answer) if isinstance(answer, grpc.Call) else answer

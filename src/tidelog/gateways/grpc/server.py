"""The services of the door on one port, with health checks and reflection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from tidelog.gateways.grpc.calls import Calls
from tidelog.gateways.grpc.generated import api_pb2, mq_pb2, tidelog_pb2
from tidelog.gateways.grpc.kafka.groups import GroupMethods as KafkaGroups
from tidelog.gateways.grpc.kafka.records import RecordMethods as KafkaRecords
from tidelog.gateways.grpc.log.groups import GroupMethods as LogGroups
from tidelog.gateways.grpc.log.records import RecordMethods as LogRecords
from tidelog.gateways.grpc.log.topics import TopicMethods as LogTopics
from tidelog.gateways.grpc.log.transactions import TransactionMethods as LogTransactions
from tidelog.gateways.grpc.mq.groups import GroupMethods as MqGroups
from tidelog.gateways.grpc.mq.records import RecordMethods as MqRecords
from tidelog.gateways.grpc.mq.topics import TopicMethods as MqTopics
from tidelog.gateways.grpc.pool import POOL
from tidelog.gateways.grpc.shared import Shared
from tidelog.model.limits import GRPC_CALLS_MAX, GRPC_MESSAGE_BYTES_MAX, GRPC_STREAMS_PER_CONNECTION_MAX

if TYPE_CHECKING:
    from tidelog.api.dispatcher import Dispatcher

GRACE_S: Final = 0.5

OPTIONS: Final = (
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    # What is sent ends near what the client asked for.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", GRPC_STREAMS_PER_CONNECTION_MAX),
    # Calls that came in one moment and were not begun yet: beyond 1,000 of them gRPC would cancel some at random.
    ("grpc.server.max_pending_requests", GRPC_CALLS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", GRPC_CALLS_MAX),
    # A client that is gone without a word is noticed after half a minute; its streams end, and its members leave.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Clients may ping as often.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 3),
    # Two nodes on one address are a mistake.
    ("grpc.so_reuseport", 0),
)


class DoorServer:
    def __init__(self, dispatcher: Dispatcher, listener_name: str, max_in_flight: int) -> None:
        self._shared = Shared(services=dispatcher.services, max_in_flight=max_in_flight)
        self._calls = Calls(dispatcher, listener_name)
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=GRPC_CALLS_MAX)
        self._names: list[str] = []
        self._add_services()

    def _add_services(self) -> None:
        shared = self._shared
        services: tuple[tuple[Any, tuple[object, ...]], ...] = (
            (
                mq_pb2.DESCRIPTOR.services_by_name["MessageQueue"],
                (MqRecords(shared), MqTopics(shared), MqGroups(shared)),
            ),
            (api_pb2.DESCRIPTOR.services_by_name["Kafka"], (KafkaRecords(shared), KafkaGroups(shared))),
            (
                tidelog_pb2.DESCRIPTOR.services_by_name["Log"],
                (LogRecords(shared), LogTopics(shared), LogGroups(shared), LogTransactions(shared)),
            ),
        )
        for descriptor, parts in services:
            self._names.append(descriptor.full_name)
            self._server.add_generic_rpc_handlers((self._calls.handlers(parts, descriptor),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for module in (health_pb2, reflection_pb2):
            POOL.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        known = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(known, self._server, pool=POOL)

    async def start(self, address: str) -> None:
        """Raises RuntimeError if the address cannot be had."""
        self._server.add_insecure_port(address)
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop_accepting(self) -> None:
        """Health checks say so at once, and new calls are refused."""
        self._calls.close()
        self._shared.tasks.start(self._health.enter_graceful_shutdown(), "tell health checks of the stop")

    async def stop(self) -> None:
        """Streams end first: their members leave their groups. Other calls have a moment to be answered."""
        await self._shared.tasks.close()
        await self._server.stop(GRACE_S)

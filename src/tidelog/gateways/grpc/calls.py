"""From methods of a service to what gRPC calls: one adapter for each of the four kinds of method.

A method takes the caller's access to the log and the request; a stream comes as `read`, and goes out through `write`:
in grpc.aio these cost half of what asynchronous generators do. A BrokerError becomes the status of the call. gRPC
cancels a method when its deadline has passed or its client has gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tidelog.api.context import Caller, Origin
from tidelog.gateways.access import LogAccess
from tidelog.gateways.grpc.status import Refused, status_of, trailing_metadata
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import GRPC_CALLERS_REMEMBERED_MAX, GRPC_COUNTED_BYTES_MIN, GRPC_IN_FLIGHT_BYTES_MAX
from tidelog.protocol.errors import MalformedMessage, UnencodableValue
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tidelog.api.dispatcher import Dispatcher

    Read = Callable[[], Awaitable[Any]]
    """The next message of the client, or END."""
    Write = Callable[[Any], Awaitable[None]]
    """Returns when the transport has taken the message: a client that does not read makes it wait."""

logger = get_logger("tidelog.grpc")

CLIENT_ID: Final = "grpc"
END: Final = grpc.aio.EOF
_PEER_HOST_CHARACTERS: Final = "[]"


def peer_host(peer: str) -> str:
    """The address in what gRPC says of a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    address = peer.partition(":")[2].rpartition(":")[0]
    return address.replace("%5B", "").replace("%5D", "").strip(_PEER_HOST_CHARACTERS)


class Calls:
    """Makes gRPC's handlers of the methods of services."""

    def __init__(self, dispatcher: Dispatcher, listener_name: str) -> None:
        self._dispatcher = dispatcher
        self._listener_name = listener_name
        """Of Kafka's protocol: callers are not told its addresses, but to find a coordinator needs one that every node
        has."""
        self._is_closed = False
        self._in_flight = InFlight()
        self._callers: dict[str, LogAccess] = {}
        """By what gRPC says of their connection."""

    def close(self) -> None:
        """Calls that begin from now on are refused."""
        self._is_closed = True

    def handlers(self, parts: Sequence[object], descriptor: Any) -> Any:
        """One of the parts has each of the descriptor's methods, by its name in snake case."""
        handlers = {}
        for method in descriptor.methods:
            name = snake_case(method.name)
            behaviour: Any = next(getattr(part, name) for part in parts if hasattr(part, name))
            requests, responses = message_class(method.input_type), message_class(method.output_type)
            kinds: dict[tuple[bool, bool], tuple[Any, Any]] = {
                (False, False): (self._unary, grpc.unary_unary_rpc_method_handler),
                (True, False): (self._client_stream, grpc.stream_unary_rpc_method_handler),
                (False, True): (self._server_stream, grpc.unary_stream_rpc_method_handler),
                (True, True): (self._both_streams, grpc.stream_stream_rpc_method_handler),
            }
            adapter, make = kinds[method.client_streaming, method.server_streaming]
            handlers[method.name] = make(
                adapter(behaviour),
                request_deserializer=reader_of(requests),
                response_serializer=responses.SerializeToString,
            )
        return grpc.method_handlers_generic_handler(descriptor.full_name, handlers)

    def access_of(self, context: Any) -> LogAccess:
        if self._is_closed:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is stopping.")
        peer: str = context.peer()
        access = self._callers.get(peer)
        if access is None:
            if len(self._callers) >= GRPC_CALLERS_REMEMBERED_MAX:
                # Nobody says which connections have ended.
                self._callers.clear()
            caller = Caller(Origin.GATEWAY, peer_host(peer), self._listener_name)
            access = self._callers[peer] = LogAccess(self._dispatcher, caller, CLIENT_ID)
        return access

    def _unary(self, method: Callable[[LogAccess, Any], Awaitable[Any]]) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                if type(request) is not Large:
                    return await method(self.access_of(context), request)
                self._in_flight.enter(request.size_bytes)
                try:
                    return await method(self.access_of(context), request.message)
                finally:
                    self._in_flight.leave(request.size_bytes)
            except Exception as fault:
                return await _refuse(context, fault)

        return call

    def _client_stream(self, method: Callable[[LogAccess, Read], Awaitable[Any]]) -> Any:
        async def call(_: Any, context: Any) -> Any:
            stream = CountedStream(context.read, self._in_flight)
            try:
                return await method(self.access_of(context), stream.read)
            except Exception as fault:
                return await _refuse(context, fault)
            finally:
                stream.end()

        return call

    def _server_stream(self, method: Callable[[LogAccess, Any, Write], Awaitable[None]]) -> Any:
        async def call(request: Any, context: Any) -> None:
            if type(request) is Large:
                request = request.message
            try:
                await method(self.access_of(context), request, context.write)
            except Exception as fault:
                await _refuse(context, fault)

        return call

    def _both_streams(self, method: Callable[[LogAccess, Read, Write], Awaitable[None]]) -> Any:
        async def call(_: Any, context: Any) -> None:
            stream = CountedStream(context.read, self._in_flight)
            try:
                await method(self.access_of(context), stream.read, context.write)
            except Exception as fault:
                await _refuse(context, fault)
            finally:
                stream.end()

        return call


async def _refuse(context: Any, fault: Exception) -> Any:
    """Ends the call with the status of the fault. Nothing about a fault of our own is told but that there is one."""
    if isinstance(fault, (MalformedMessage, UnencodableValue)):
        fault = BrokerError(ErrorCode.INVALID_REQUEST, str(fault))
    if isinstance(fault, grpc.aio.AbortError):
        raise fault
    if not isinstance(fault, BrokerError):
        logger.exception_limited("a gRPC call failed", limit_by=())
        fault = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        await context.abort(status_of(fault), fault.message, trailing_metadata(fault))
    except grpc.aio.InternalError:
        # A message of the call is still on its way out: only the end of the connection can end the call now.
        logger.info_limited("a gRPC call could not be given a status", limit_by=(), status=status_of(fault).name)


class Large:
    """A request that is counted while it is in memory, and its size."""

    __slots__ = ("message", "size_bytes")

    def __init__(self, message: Any, size_bytes: int) -> None:
        self.message = message
        self.size_bytes = size_bytes


class InFlight:
    """Bytes of large requests that are being answered, over all calls of the door. Small ones are bounded by the number
    of calls."""

    def __init__(self, bytes_max: int = GRPC_IN_FLIGHT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    def enter(self, size_bytes: int) -> None:
        if self._bytes + size_bytes > self._bytes_max:
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "The node is short of memory for requests: try again.",
            )
        self._bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        self._bytes -= size_bytes


class CountedStream:
    """The messages of a client's stream: each counts until the next is asked for."""

    def __init__(self, read: Read, in_flight: InFlight) -> None:
        self._read = read
        self._in_flight = in_flight
        self._held_bytes = 0

    async def read(self) -> Any:
        if self._held_bytes:
            self.end()
        request = await self._read()
        if type(request) is Large:
            self._in_flight.enter(request.size_bytes)
            self._held_bytes = request.size_bytes
            return request.message
        return request

    def end(self) -> None:
        self._in_flight.leave(self._held_bytes)
        self._held_bytes = 0


class Malformed:
    """Stands for a request that could not be decoded: looking at it refuses the call, in every kind of method."""

    def __getattr__(self, name: str) -> Any:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The bytes of the request are not a message of this method.")


def reader_of(requests: Any) -> Callable[[bytes], Any]:
    """Decodes without raising: what gRPC makes of a fault here is an UNKNOWN with the name of a Python class."""
    decode = requests.FromString

    def read(data: bytes) -> Any:
        try:
            message = decode(data)
        except DecodeError:
            return Malformed()
        return message if len(data) < GRPC_COUNTED_BYTES_MIN else Large(message, len(data))

    return read


def message_class(descriptor: Any) -> Any:
    return GetMessageClass(descriptor)


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

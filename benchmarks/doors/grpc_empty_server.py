"""`mq.MessageQueue` with methods that do nothing, on the server library of the gRPC door and with its options:
`python -m benchmarks.doors.grpc_empty_server` prints its port and serves until its standard input ends."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

from benchmarks.doors.requests import TOPIC, VALUE
from tidelog.gateways.grpc.generated import mq_pb2 as mq
from tidelog.gateways.grpc.server import OPTIONS
from tidelog.model.limits import GRPC_CALLS_MAX


async def _produce(request: mq.ProduceRequest, context: Any) -> mq.ProduceResponse:
    return mq.ProduceResponse(offset=1, partition=request.partition)


async def _produce_stream(_: Any, context: Any) -> mq.ProduceResponse:
    while await context.read() is not grpc.aio.EOF:
        pass
    return mq.ProduceResponse(offset=1)


async def _subscribe(request: mq.SubscribeRequest, context: Any) -> None:
    """Until the client has enough."""
    offset = 0
    while True:
        message = mq.Message(value=VALUE, topic=TOPIC, offset=offset, timestamp=1_800_000_000_000)
        await context.write(message)
        offset += 1


async def _serve() -> None:
    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=GRPC_CALLS_MAX)
    methods = {
        "Produce": grpc.unary_unary_rpc_method_handler(
            _produce, mq.ProduceRequest.FromString, mq.ProduceResponse.SerializeToString
        ),
        "ProduceStream": grpc.stream_unary_rpc_method_handler(
            _produce_stream, mq.ProduceRequest.FromString, mq.ProduceResponse.SerializeToString
        ),
        "Subscribe": grpc.unary_stream_rpc_method_handler(
            _subscribe, mq.SubscribeRequest.FromString, mq.Message.SerializeToString
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("mq.MessageQueue", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


def main() -> int:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

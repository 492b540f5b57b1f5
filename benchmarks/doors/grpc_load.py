"""One kind of gRPC load, as a process of its own: `python -m benchmarks.doors.grpc_load KIND` prints one JSON object.

A tenth of the load goes first and is not measured."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from tests.servers.broker_process import process_cpu_seconds

from benchmarks.doors.requests import VALUE
from tidelog.gateways.grpc.generated import mq_pb2 as mq
from tidelog.gateways.grpc.generated import tidelog_pb2 as v1

STREAM_TOPIC = "grpc-stream"
BATCH_TOPIC = "grpc-batches"
CALLERS = 16
BATCH_RECORDS = 1000
BATCHES_IN_FLIGHT = 4
READERS = 2
FETCH_BYTES = 1 << 20
EARLIEST = -2

Load = Callable[[grpc.aio.Channel, int], Awaitable[None]]


async def _in_parallel(callers: int, count: int, call: Callable[[], Awaitable[Any]]) -> None:
    async def repeat() -> None:
        for _ in range(count // callers):
            await call()

    await asyncio.gather(*(repeat() for _ in range(callers)))


async def produce(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.unary_unary(
        "/mq.MessageQueue/Produce", mq.ProduceRequest.SerializeToString, mq.ProduceResponse.FromString
    )
    request = mq.ProduceRequest(topic=STREAM_TOPIC, value=VALUE, acks=-1)
    await _in_parallel(CALLERS, count, lambda: method(request))


async def produce_stream(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.stream_unary(
        "/mq.MessageQueue/ProduceStream", mq.ProduceRequest.SerializeToString, mq.ProduceResponse.FromString
    )
    request = mq.ProduceRequest(topic=STREAM_TOPIC, value=VALUE, acks=-1)
    stream = method()
    for _ in range(count):
        await stream.write(request)
    await stream.done_writing()
    await stream


async def subscribe(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.unary_stream(
        "/mq.MessageQueue/Subscribe", mq.SubscribeRequest.SerializeToString, mq.Message.FromString
    )
    stream = method(mq.SubscribeRequest(topic=STREAM_TOPIC, start_offset=EARLIEST))
    for _ in range(count):
        await stream.read()
    stream.cancel()


async def produce_batches(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.unary_unary(
        "/tidelog.v1.Log/Produce", v1.ProduceRequest.SerializeToString, v1.ProduceResponse.FromString
    )
    records = [v1.Record(value=VALUE)] * BATCH_RECORDS
    request = v1.ProduceRequest(topic=BATCH_TOPIC, partition=0, records=records)
    await _in_parallel(BATCHES_IN_FLIGHT, count // BATCH_RECORDS, lambda: method(request))


async def fetch_batches(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.unary_unary(
        "/tidelog.v1.Log/Fetch", v1.FetchRequest.SerializeToString, v1.FetchResponse.FromString
    )

    async def read(offset: int, end: int) -> None:
        while offset < end:
            request = v1.FetchRequest(topic=BATCH_TOPIC, partition=0, offset=offset, max_bytes=FETCH_BYTES)
            offset = (await method(request)).next_offset

    share = count // READERS
    await asyncio.gather(*(read(place * share, (place + 1) * share) for place in range(READERS)))


async def subscribe_batches(channel: grpc.aio.Channel, count: int) -> None:
    method = channel.unary_stream(
        "/tidelog.v1.Log/Subscribe", v1.SubscribeRequest.SerializeToString, v1.FetchResponse.FromString
    )
    start = v1.Start(topic=BATCH_TOPIC, partition=0, offset=0)
    stream = method(v1.SubscribeRequest(partitions=[start]))
    read = 0
    while read < count:
        read += len((await stream.read()).records)
    stream.cancel()


LOADS: dict[str, Load] = {
    "produce": produce,
    "produce-stream": produce_stream,
    "subscribe": subscribe,
    "produce-batches": produce_batches,
    "fetch-batches": fetch_batches,
    "subscribe-batches": subscribe_batches,
}


async def _run(args: argparse.Namespace) -> dict[str, float]:
    load = LOADS[args.kind]
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{args.port}", options=options) as channel:
        await load(channel, args.count // 10)
        cpu_s, started_s = process_cpu_seconds(args.pid), time.perf_counter()
        await load(channel, args.count)
        seconds = time.perf_counter() - started_s
        cpu_s = process_cpu_seconds(args.pid) - cpu_s
    return {"rate": args.count / seconds, "cpu_us": cpu_s * 1e6 / args.count}


def main() -> int:
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=LOADS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server: its CPU is counted")
    parser.add_argument("--count", type=int, required=True, help="calls or records")
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(_run(args)), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

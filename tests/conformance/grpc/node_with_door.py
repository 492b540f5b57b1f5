"""A node with a gRPC door in a process of its own: `python node_with_door.py <data> <name=value>...`.

Prints one line, the ports of both doors, when calls are answered. SIGTERM stops it in good order.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from tidelog.gateways.grpc.door import GrpcDoor
from tidelog.metadata.image import Endpoint
from tidelog.node import gateways
from tidelog.testing.broker import AsyncBroker


async def serve(data: str, settings: dict[str, str]) -> None:
    port = int(settings.pop("port", "0"))
    is_registered = settings.pop("grpc.registered", "true") == "true"
    door = GrpcDoor("127.0.0.1", int(settings.pop("grpc.port", "0")))

    async def bind_gateways(*_: Any) -> dict[str, Any]:
        door.bind()
        return {"GRPC": (door, Endpoint("GRPC" if is_registered else "HTTP", "127.0.0.1", door.port))}

    gateways.bind_gateways = bind_gateways
    settings["http.listen"] = "127.0.0.1:0"
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    broker = AsyncBroker(settings, data=data, port=port)
    await broker.start()
    await door.opened()
    print(f"kafka {broker.port} grpc {door.port}", flush=True)
    await stopping.wait()
    await broker.stop()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])))

"""Whether a Spark master is there, found out before Spark is: Spark itself asks for a minute, or for ever.

A connection is not enough, since any server accepts one. A standalone master is asked for a file that it does not have,
and says so without a line in its log; a Connect server has to answer as a gRPC server does.
"""

from __future__ import annotations

import os
import socket
from struct import Struct

from tidelog.pipelines.errors import PipelineError

TIMEOUT_VARIABLE = "TIDELOG_SPARK_MASTER_TIMEOUT"
TIMEOUT_S = 10.0
"""How long a master may take to answer."""

_FILE = b"/files/tidelog"
_REQUEST = Struct(">qbi").pack(13 + len(_FILE), 6, len(_FILE)) + _FILE
"""StreamRequest of Spark's own transport, in its frame: length, kind, name."""
_FRAME = Struct(">qb")
_FRAME_BYTES_MAX = 1 << 20
_KINDS = range(12)
_TLS = (0x15, 0x16)
"""How a record begins that a port for TLS answers to plain text: the port answers."""


def check_master_answers(master: str) -> None:
    """PipelineError unless a standalone master or a Connect server answers there; other masters are not asked."""
    if not master.startswith(("spark://", "sc://")):
        return
    timeout_s = _timeout_s()
    if master.startswith("sc://"):
        what, reason = "Spark Connect server", _ask_connect_server(master, timeout_s)
    else:
        what, reason = "standalone master", _ask_in_turn(master.removeprefix("spark://").split(","), timeout_s)
    if reason:
        advice = f"start one there, or name another with --master ({TIMEOUT_VARIABLE} is how many seconds to wait)"
        raise PipelineError(f"no {what} answers at {master}: {reason}; {advice}")


def _timeout_s() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE) or str(TIMEOUT_S)
    try:
        return float(text)
    except ValueError:
        raise PipelineError(f"{TIMEOUT_VARIABLE}={text!r} is no number of seconds") from None


def _ask_in_turn(addresses: list[str], timeout_s: float) -> str:
    """A standalone master may have stand-ins: spark://HOST:PORT,HOST:PORT. The first that answers is enough."""
    reasons = []
    for address in addresses:
        reason = _ask_standalone(address, timeout_s)
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[0]


def _ask_standalone(address: str, timeout_s: float) -> str:
    """Why it is none; empty for a master."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address} is no HOST:PORT"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
            connection.sendall(_REQUEST)
            answer = b""
            while len(answer) < _FRAME.size and (more := connection.recv(_FRAME.size - len(answer))):
                answer += more
    except TimeoutError:
        return f"nothing was said within {timeout_s:g} s"
    except ConnectionResetError:
        return "what listens there is something else"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if answer[:1] and answer[0] in _TLS:
        return ""
    if len(answer) < _FRAME.size:
        return "what listens there is something else"
    length, kind = _FRAME.unpack(answer)
    is_frame = _FRAME.size <= length <= _FRAME_BYTES_MAX and kind in _KINDS
    return "" if is_frame else "what listens there is something else"


def _ask_connect_server(master: str, timeout_s: float) -> str:
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        builder = DefaultChannelBuilder(master)
    except Exception as error:
        return str(error).splitlines()[0]
    try:
        # Before gRPC, which tells a refused connection from a silent one only in its log.
        host, _, port = builder.endpoint.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout_s)
        except grpc.FutureTimeoutError:
            return f"what listens there did not speak gRPC within {timeout_s:g} s"
    return ""

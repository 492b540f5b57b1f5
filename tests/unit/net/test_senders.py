"""How bytes leave: past the transport on a plain socket, through it where it encrypts."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.net.serving import frame, read_frame, run_scenario, serving, wait_until

from tidelog.net.connection import Connection
from tidelog.net.file_region import REGION_BYTES_MIN
from tidelog.net.listener import Listener
from tidelog.net.reply import Buffers, PendingReply, Reply
from tidelog.net.transport_sender import WRITE_CHUNK_BYTES
from tidelog.storage.region import LogRegion
from tidelog.storage.segment_file import READ, SegmentFile

pytestmark = pytest.mark.usefixtures("loop_kind")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and its self-signed certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


@pytest.fixture
def sendfile_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each call was asked for."""
    calls: list[int] = []
    sendfile = os.sendfile

    def note(out_fd: int, in_fd: int, offset: int, count: int) -> int:
        calls.append(count)
        return sendfile(out_fd, in_fd, offset, count)

    monkeypatch.setattr(os, "sendfile", note)
    return calls


@asynccontextmanager
async def connected(listener: Listener, certificate: Path | None) -> AsyncIterator[Streams]:
    """A client, and at the listener's end a transport that encrypts if there is a certificate."""
    loop = asyncio.get_running_loop()
    server = client = None
    if certificate is not None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate)
        client = ssl.create_default_context(cafile=str(certificate))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        streams = asyncio.ensure_future(
            asyncio.open_connection(
                *listening.getsockname(), ssl=client, server_hostname="localhost" if client else None, limit=1 << 26
            )
        )
        accepted, _ = await loop.sock_accept(listening)
    await loop.connect_accepted_socket(lambda: listener.new_connection(accepted), accepted, ssl=server)
    reader, writer = await streams
    try:
        yield reader, writer
    finally:
        writer.close()
        await wait_until(lambda: listener.connection_count == 0)


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_large_regions_arrive_whole_and_are_never_sent_past_encryption(
    tmp_path: Path, request: pytest.FixtureRequest, sendfile_calls: list[int], is_encrypted: bool, is_slow: bool
) -> None:
    certificate = request.getfixturevalue("certificate") if is_encrypted else None
    content = os.urandom(6_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    spans = [(0, 10), (100, REGION_BYTES_MIN), (50_000, 5_000_000), (7, 31), (5_500_000, WRITE_CHUNK_BYTES + 1)]
    expected = b"".join(b"<" + content[position : position + size] + b">" for position, size in spans)

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        if data[start:] == b"small one":
            return b"small answer"
        parts: Buffers = []
        for position, size in spans:
            parts += [b"<", LogRegion(SegmentFile(str(path), READ), position, size, 0), b">"]
        return parts

    async def run() -> None:
        async with serving(dispatch) as (listener, _), connected(listener, certificate) as (reader, writer):
            for _ in range(3):
                if is_slow:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(frame(b"large one") + frame(b"small one"))
                if is_slow:
                    await asyncio.sleep(0.05)
                    writer.transport.resume_reading()  # type: ignore[attr-defined]
                assert await read_frame(reader) == expected
                assert await read_frame(reader) == b"small answer"
            assert listener.shared.budget.used_bytes == 0

    run_scenario(run)
    assert bool(sendfile_calls) == (not is_encrypted)


class CountedRegion:
    """A region that knows how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.loaded_bytes = 0

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        length = self.size - start if length is None else length
        self.loaded_bytes += length
        return bytes([start % 251]) * length


def test_a_peer_that_does_not_read_holds_little_memory_under_encryption_too(certificate: Path) -> None:
    region = CountedRegion(128 * WRITE_CHUNK_BYTES)

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        return [b"head", region]

    async def run() -> None:
        async with serving(dispatch) as (listener, _), connected(listener, certificate) as (reader, writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(frame(b"gimme all"))
            await wait_until(lambda: region.loaded_bytes > 0)
            await asyncio.sleep(0.2)
            assert region.loaded_bytes < region.size / 2
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await read_frame(reader)) == region.size + 4

    run_scenario(run)


def test_an_encrypted_connection_answers_in_order_and_closes_like_any_other(certificate: Path) -> None:
    pending: list[PendingReply] = []

    def dispatch(connection: Connection, data: Any, start: int) -> Reply:
        content = bytes(data[start:])
        if content == b"wait for me":
            pending.append(PendingReply(overlaps=True))
            return pending[0]
        return content

    async def run() -> None:
        async with serving(dispatch, 1 << 22) as (listener, _), connected(listener, certificate) as (reader, writer):
            contents = [b"request %d" % number for number in range(200)] + [b"x" * 300_000]
            writer.write(frame(b"wait for me") + b"".join(map(frame, contents)))
            await wait_until(lambda: bool(pending))
            pending[0].complete([b"first"])
            assert [await read_frame(reader) for _ in range(202)] == [b"first", *contents]
            assert listener.shared.budget.used_bytes == 0
            listener.close_connections()
            assert await reader.read() == b""
            await wait_until(lambda: listener.shared.metrics.connections_closed["shutdown"] == 1)

    run_scenario(run)


@pytest.mark.parametrize("is_last", [False, True])
def test_a_reply_that_cannot_be_sent_closes_its_connection_and_no_other(is_last: bool) -> None:
    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        # No region, and no bytes either: joining it with what is in front of it fails.
        return [b"head", memoryview(bytearray(4))[::2]] if data[start:] == b"bad request" else data[start:]

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> None:
        writer.write(frame(content))
        assert await read_frame(reader) == content

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            bad_reader, bad = await connect()
            reader, good = await connect()
            # Behind another one it waits in the outbox; answered twice in a row, it does not.
            await exchange(bad_reader, bad, b"good morning")
            if not is_last:
                await exchange(reader, good, b"good morning")
            bad.write(frame(b"bad request"))
            await exchange(reader, good, b"still here")
            assert await bad_reader.read() == b""
            await wait_until(lambda: listener.shared.metrics.connections_closed["error"] == 1)

    run_scenario(run)

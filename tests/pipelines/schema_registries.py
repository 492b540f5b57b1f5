"""Schema registries for tests: a small one that speaks the REST interface, and a real one as a process.

The small one keeps schemas in memory and checks nothing; it is there so that the tests of every day need no download.
Apicurio Registry is one that people run; it is fetched with Maven, like Apache Kafka.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import tarfile
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.apache_kafka import java
from tests.servers.broker_process import end_with_parent, free_port, port_answers
from tests.servers.tools import missing, require_program
from tests.waiting import wait_until

APICURIO = "3.0.9"
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


def register(registry: str, subject: str, schema: dict[str, Any] | str, **more: Any) -> int:
    """The id of a schema, Avro unless `schemaType` says otherwise, that is now the newest version of a subject."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    request = urllib.request.Request(
        f"{registry}/subjects/{urllib.parse.quote(subject, safe='')}/versions",
        json.dumps({"schema": text, **more}).encode(),
        {"Content-Type": _MEDIA_TYPE},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.loads(answer.read())["id"])


class _Handler(http.server.BaseHTTPRequestHandler):
    """POST /subjects/S/versions, GET /subjects/S/versions, GET /subjects/S/versions/N and GET /schemas/ids/N."""

    server: _Server

    def do_POST(self) -> None:
        found = re.fullmatch(r"/subjects/([^/]+)/versions", self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if found is None:
            self._answer(404, {"error_code": 404})
            return
        versions = self.server.subjects.setdefault(urllib.parse.unquote(found[1]), [])
        known = [version["id"] for version in versions if {**version, "id": 0} == {**body, "id": 0}]
        if not known:
            self.server.last_id += 1
            versions.append({**body, "id": self.server.last_id})
        self._answer(200, {"id": known[0] if known else self.server.last_id})

    def do_GET(self) -> None:
        if by_id := re.fullmatch(r"/schemas/ids/(\d+)(?:\?format=serialized)?", self.path):
            everything = [version for versions in self.server.subjects.values() for version in versions]
            known = [version for version in everything if version["id"] == int(by_id[1])]
            self._answer(200 if known else 404, {**known[0], "id": None} if known else {"error_code": 40403})
            return
        found = re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+|latest))?(?:\?format=serialized)?", self.path)
        subject = urllib.parse.unquote(found[1]) if found else ""
        versions = self.server.subjects.get(subject, [])
        if found is None or not versions:
            self._answer(404, {"error_code": 40401, "message": "Subject not found."})
        elif found[2] is None:
            self._answer(200, list(range(1, len(versions) + 1)))
        else:
            number = len(versions) if found[2] == "latest" else int(found[2])
            self._answer(200, {"subject": subject, "version": number, **versions[number - 1]})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", _MEDIA_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.last_id = 0


@contextmanager
def small_registry() -> Iterator[str]:
    """The URL of a registry in this process."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def apicurio_registry(directory: Path) -> Iterator[str]:
    """The URL under which Apicurio Registry speaks the same interface; its schemas are in memory."""
    archive = directory / f"apicurio-registry-app-{APICURIO}-all.tar.gz"
    artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
    command = [require_program("mvn"), "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={directory}"]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        missing(f"Apicurio Registry: Maven could not fetch it: {fetched.stdout[-500:]}")
    home = directory / "apicurio"
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    archive.unlink()
    port = free_port()
    with (directory / "registry.log").open("wb") as log:
        options = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}")
        process = subprocess.Popen(
            [java(), *options, "-jar", str(home / f"apicurio-registry-app-{APICURIO}-runner.jar")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent,
        )
    try:
        wait_until(lambda: port_answers(port) or process.poll() is not None, "the registry answers", 180)
        yield f"http://127.0.0.1:{port}/apis/ccompat/v7"
    finally:
        process.kill()
        process.wait(30)
        shutil.rmtree(home)

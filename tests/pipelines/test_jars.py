"""Jars from a registry: one that does not answer, and one that lacks what is asked for, are one line within seconds."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.pipelines.errors import MissingRequirement
from tidelog.pipelines.spark.jars import Jar, jar_paths, pinned_jars
from tidelog.pipelines.spark.resolver import SETTINGS_VARIABLE

SECONDS_MAX = 120.0
"""For a JVM on a busy machine. Without limits of our own every jar would wait minutes for its time-out."""


@contextlib.contextmanager
def full_listener() -> Iterator[int]:
    """A port that lets nobody in: its queue is full, so that whoever connects hears nothing at all."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


class Empty(http.server.BaseHTTPRequestHandler):
    """Has nothing, and says so."""

    def do_GET(self) -> None:
        self.send_error(404)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def empty_registry() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def use_only(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        f"""\
        <ivysettings>
          <settings defaultResolver="all"/>
          <resolvers>
            <chain name="all"><ibiblio name="only" m2compatible="true" root="http://127.0.0.1:{port}/maven2/"/></chain>
          </resolvers>
        </ivysettings>
        """
    )
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings))


def refusal(jars: list[Jar], directory: Path) -> str:
    started = time.monotonic()
    with pytest.raises(MissingRequirement) as caught:
        jar_paths(jars, directory)
    assert time.monotonic() - started < SECONDS_MAX
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.timeout(600)
def test_a_registry_that_does_not_answer_is_named(
    requirements: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_listener() as port:
        use_only(port, tmp_path, monkeypatch)
        line = refusal(list(pinned_jars(("delta",))), tmp_path / "cache")
    assert f"http://127.0.0.1:{port}/maven2/ does not answer: Connect timed out" in line
    assert "TIDELOG_MAVEN_REPOSITORIES or TIDELOG_IVY_SETTINGS" in line


@pytest.mark.timeout(600)
def test_a_jar_that_the_registry_lacks_is_named(
    requirements: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with empty_registry() as port:
        use_only(port, tmp_path, monkeypatch)
        line = refusal([Jar("org.example:absent:1.0")], tmp_path / "cache")
    assert "the jars org.example:absent:1.0 cannot be fetched" in line
    assert "unresolved dependency" in line

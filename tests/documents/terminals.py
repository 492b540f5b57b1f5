"""The reader's terminals: a shell for commands that end, and one terminal each for those that keep running."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.waiting import wait_until

COMMAND_SECONDS_MAX = 100.0
READY_SECONDS_MAX = 60.0
END_SECONDS_MAX = 20.0
OUTPUT_BYTES_MAX = 4 << 20
_PR_SET_PDEATHSIG = 1


class CommandFailed(Exception):
    """A command did not do what a reader would expect; the text says which, and what it printed."""


class Shell:
    """One bash that runs commands in turn, so that `cd`, `export` and `source` hold for the next."""

    def __init__(self, directory: Path, environment: Mapping[str, str], enter: list[str]) -> None:
        self._marker = f"done-{uuid.uuid4().hex}"
        self._process = subprocess.Popen(
            [*enter, "bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )

    @property
    def directory(self) -> Path:
        """Where the reader has gone to."""
        return Path(os.readlink(f"/proc/{self._process.pid}/cwd"))

    @property
    def environment(self) -> dict[str, str]:
        """What a terminal has that is opened beside this one and set up in the same way."""
        text, _ = self.run("env -0 | tr '\\0' '\\036'")
        pairs = (pair.partition("=") for pair in text.split("\x1e") if "=" in pair)
        return {name.strip(): value for name, _, value in pairs}

    def run(self, text: str, seconds_max: float = COMMAND_SECONDS_MAX) -> tuple[str, int]:
        """What it printed, and its exit code."""
        assert self._process.stdin is not None
        line = f"eval {shlex.quote(text)} </dev/null; printf '\\n{self._marker} %s\\n' $?\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        return self._read(text, seconds_max)

    def _read(self, text: str, seconds_max: float) -> tuple[str, int]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline_s = time.monotonic() + seconds_max
        output = b""
        while len(output) < OUTPUT_BYTES_MAX:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise CommandFailed(f"`{text}` did not end in {seconds_max:g} s; it printed:\n{_decoded(output)}")
            read = os.read(descriptor, 1 << 16)
            output += read
            found = re.search(rb"\n" + self._marker.encode() + rb" (\d+)\n", output[-(len(read) + 100) :])
            if found is not None:
                return _decoded(output.rpartition(b"\n" + self._marker.encode())[0]), int(found[1])
            if not read:
                raise CommandFailed(f"`{text}` ended the shell; it printed:\n{_decoded(output)}")
        raise CommandFailed(f"`{text}` printed more than {OUTPUT_BYTES_MAX} bytes")

    def close(self) -> None:
        kill_group(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class Terminal:
    """A command that keeps running until it is interrupted."""

    def __init__(
        self, text: str, directory: Path, environment: Mapping[str, str], enter: list[str], output: Path
    ) -> None:
        self.text = text
        self._output = output
        with output.open("wb") as written:
            self._process = subprocess.Popen(
                [*enter, "bash", "--noprofile", "--norc", "-c", f"exec {text}"],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def printed(self) -> str:
        return _decoded(self._output.read_bytes())

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until(self, is_ready: Callable[[str], bool]) -> None:
        def is_ready_or_ended() -> bool:
            return is_ready(self.printed) or self.has_ended

        try:
            wait_until(is_ready_or_ended, f"`{self.text}` to be ready", READY_SECONDS_MAX, interval_s=0.02)
        except TimeoutError as error:
            raise CommandFailed(f"{error}; it printed:\n{self.printed}") from None
        if not is_ready(self.printed):
            raise CommandFailed(f"`{self.text}` ended; it printed:\n{self.printed}")

    def interrupt(self) -> None:
        """Ctrl-C; whatever runs in a document ends in good order then."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            code = self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CommandFailed(f"`{self.text}` did not end after Ctrl-C; it printed:\n{self.printed}") from None
        if code not in (0, 130, -signal.SIGINT):
            raise CommandFailed(f"`{self.text}` ended with code {code}; it printed:\n{self.printed}")

    def kill(self) -> None:
        kill_group(self._process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """The process, if it still runs, and those it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_with_parent() -> None:
    """In the child: nothing is left behind when the tests are killed. Ctrl-C works as in a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _decoded(output: bytes) -> str:
    return output.decode(errors="replace").strip("\n")

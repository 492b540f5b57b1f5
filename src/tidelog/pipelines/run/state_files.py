"""What a run leaves in the checkpoint directory for other commands: its process, its progress, a wish to stop.

    <checkpoint>/pipeline.json    what the checkpoint was written for (spec/fingerprint.py); outlives runs
    <checkpoint>/run.json         process id, host, status of every query; renewed with every change, and each second
    <checkpoint>/run.lock         held while a run goes on: the proof that it does, even after kill -9
    <checkpoint>/stop             the run is asked to end
    <checkpoint>/<sink>/          Spark's own checkpoint of the query of that sink

A checkpoint in a remote file system has these files in the local state directory instead; `status` and `stop` then
work on the machine of the driver.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidelog.pipelines.errors import PipelineError


class StateFiles:
    """The files of one checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self.directory = Path(checkpoint) if "://" not in checkpoint else _local_directory(checkpoint)
        self._stop = self.directory / "stop"
        self._run = self.directory / "run.json"
        self._kept = self.directory / "pipeline.json"
        self._lock = self.directory / "run.lock"

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Makes this process the one that runs; PipelineError when another does."""
        made = self._make_directory()
        with self._locked():
            self._stop.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._leave_nothing(made)

    def _make_directory(self) -> list[Path]:
        """The directories that were made for it, the innermost first."""
        above = [self.directory, *self.directory.parents]
        made = [place for place in above if not place.exists()]
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from None
        return made

    def _unusable(self, error: OSError) -> PipelineError:
        return PipelineError(f"the checkpoint {self.directory} cannot be used: {error.strerror}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        while True:
            try:
                lock = self._lock.open("a")
            except OSError as error:
                raise self._unusable(error) from None
            with lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    pid = (self.read_run() or {}).get("pid", "unknown")
                    raise PipelineError(
                        f"the pipeline with checkpoint {self.checkpoint} is running already (process {pid}); "
                        "end it with `tidelog pipeline stop`, or give this one another checkpoint"
                    ) from None
                # A run that left nothing has removed its lock file: one that is gone locks out no other process.
                if self._lock.exists() and os.path.samestat(os.fstat(lock.fileno()), self._lock.stat()):
                    yield
                    return

    def _leave_nothing(self, made: list[Path]) -> None:
        """A first run that was refused before it wrote anything removes what was made for it."""
        if self.directory in made and os.listdir(self.directory) == [self._lock.name]:
            self._lock.unlink()
            with contextlib.suppress(OSError):
                for place in made:
                    place.rmdir()

    def is_running(self) -> bool:
        try:
            with self._lock.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    # -- the run -------------------------------------------------------------------------------------------------

    def write_run(self, document: dict[str, Any]) -> None:
        own = {"pid": os.getpid(), "host": socket.gethostname(), "updated_ms": int(time.time() * 1000)}
        _write(self._run, {**own, **document})

    def read_run(self) -> dict[str, Any] | None:
        return _read(self._run)

    def ask_to_stop(self) -> None:
        self._stop.touch()

    def is_asked_to_stop(self) -> bool:
        return self._stop.exists()

    # -- the fingerprint -----------------------------------------------------------------------------------------

    def read_fingerprint(self) -> dict[str, Any] | None:
        return _read(self._kept)

    def write_fingerprint(self, document: dict[str, Any]) -> None:
        """Sinks that are gone keep their entry: their checkpoint is still there, and they may come back."""
        kept = (self.read_fingerprint() or {}).get("sinks", {})
        _write(self._kept, {**document, "sinks": {**kept, **document["sinks"]}})


def _local_directory(checkpoint: str) -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "tidelog" / "pipelines" / hashlib.sha256(checkpoint.encode()).hexdigest()[:16]


def _write(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all: readers come at any moment."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read ({error}); it is part of a checkpoint, restore it") from None
    if not isinstance(found, dict):
        raise PipelineError(f"{path} is not what a pipeline wrote there; it is part of a checkpoint, restore it")
    return found

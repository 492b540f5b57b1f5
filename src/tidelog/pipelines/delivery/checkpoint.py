"""Small files beside a query's checkpoint, on whatever file system it is, and what the checkpoint says of batches.

Written to a temporary name and renamed, so that a reader finds the old content or the new one. `files_in` chooses
between files of this machine and files that Hadoop reaches: Hadoop starts a process for the permissions of every local
file it makes, which takes longer than all the rest of a small batch.
"""

from __future__ import annotations

import json
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Positions = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> next offset."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch that was planned and the last that was finished; -1 is none."""

    planned: int
    finished: int

    @property
    def next_fresh(self) -> int:
        """The first batch that no run has begun: one that is planned runs again with the same rows."""
        return self.planned + 1


def files_in(spark: SparkSession, directory: str) -> Files:
    """The files of a directory. A session without a JVM (Spark Connect) reaches nothing but this machine."""
    if not hasattr(spark, "_jsc"):
        if "://" in directory and not directory.startswith("file://"):
            raise PipelineError(f"{directory}: a Spark Connect client reaches local paths only")
        return LocalFiles(directory.removeprefix("file://"))
    remote = HadoopFiles(spark, directory)
    local = remote.local_path()
    return remote if local is None else LocalFiles(local)


class Files(ABC):
    """A directory; names are relative to it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory.rstrip("/")

    @abstractmethod
    def read(self, name: str) -> str | None:
        """The text of a file, None if there is no such file."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Replaces a file as a whole."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""

    @abstractmethod
    def walk(self, folder: str) -> list[str]:
        """All files below a folder, named from there."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Renames a file. One that was renamed by an earlier run is left where it is."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Removes a file or a folder with all in it, if it is there."""

    def progress(self) -> Progress:
        """What a query with its checkpoint here has planned and finished."""
        return Progress(planned=self._last("offsets"), finished=self._last("commits"))

    def positions(self) -> Positions:
        """The end of the last finished batch of a query with its checkpoint here, in every topic it reads."""
        last, found = self._last("commits"), dict[str, dict[int, int]]()
        text = self.read(f"offsets/{last}") if last >= 0 else None
        # A version, a line about the batch, then a line for every source.
        for line in (text or "").splitlines()[2:]:
            for topic, partitions in (json.loads(line) if line.startswith("{") else {}).items():
                if isinstance(partitions, dict):
                    found.setdefault(topic, {}).update({int(name): int(end) for name, end in partitions.items()})
        return found

    def read_json(self, name: str) -> dict[str, Any] | None:
        text = self.read(name)
        if text is None:
            return None
        try:
            content = json.loads(text)
        except ValueError as error:
            raise PipelineError(f"{self._directory}/{name} is damaged: {error}") from None
        if not isinstance(content, dict):
            raise PipelineError(f"{self._directory}/{name} is damaged: not an object")
        return content

    def _last(self, folder: str) -> int:
        return max((int(name) for name in self.names(folder) if name.isdigit()), default=-1)


class LocalFiles(Files):
    """On this machine."""

    @property
    def place(self) -> Path:
        return Path(self._directory)

    def read(self, name: str) -> str | None:
        path = self._path(name)
        return path.read_text() if path.is_file() else None

    def write(self, name: str, text: str) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        unfinished.write_text(text)
        unfinished.replace(path)

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def walk(self, folder: str) -> list[str]:
        root = self._path(folder)
        return [str(entry.relative_to(root)) for entry in root.rglob("*") if entry.is_file()]

    def move(self, source: str, target: str) -> None:
        old, new = self._path(source), self._path(target)
        if old.exists():
            new.parent.mkdir(parents=True, exist_ok=True)
            old.replace(new)
        elif not new.exists():
            raise _removed(old, new)

    def delete(self, name: str) -> None:
        path = self._path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return Path(self._directory) / name


class HadoopFiles(Files):
    """On any file system that Hadoop reaches, through the session's JVM."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        super().__init__(directory)
        session: Any = spark
        self._jvm: Any = session._jvm
        self._gateway: Any = session.sparkContext._gateway
        self._configuration: Any = session._jsc.hadoopConfiguration()

    def local_path(self) -> str | None:
        """Where the directory is on this machine; None if it is somewhere else."""
        address = self._place("")[1].toUri()
        return str(address.getPath()) if address.getScheme() == "file" else None

    def read(self, name: str) -> str | None:
        system, path = self._place(name)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        system, path = self._place(name)
        # The context renames over an existing file in one step where the file system can (it cannot through `rename`).
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), self._configuration)
        unfinished = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.{uuid.uuid4().hex}")
        stream = system.create(unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hflush()
        finally:
            stream.close()
        options = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 1)
        options[0] = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        context.rename(unfinished, path, options)

    def names(self, folder: str) -> list[str]:
        system, path = self._place(folder)
        return [str(entry.getPath().getName()) for entry in system.listStatus(path)] if system.exists(path) else []

    def walk(self, folder: str) -> list[str]:
        system, root = self._place(folder)
        listing, found = system.listFiles(root, True), []
        while listing.hasNext():
            found.append(str(listing.next().getPath().toString()).removeprefix(f"{root.toString()}/"))
        return found

    def move(self, source: str, target: str) -> None:
        system, old = self._place(source)
        _, new = self._place(target)
        if system.exists(old):
            system.mkdirs(new.getParent())
            if not system.rename(old, new):
                raise PipelineError(f"{old.toString()} cannot be renamed to {new.toString()}")
        elif not system.exists(new):
            raise _removed(old.toString(), new.toString())

    def delete(self, name: str) -> None:
        system, path = self._place(name)
        system.delete(path, True)

    def _place(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._directory}/{name}" if name else self._directory)
        system = path.getFileSystem(self._configuration)
        return system, system.makeQualified(path)


def _removed(old: object, new: object) -> PipelineError:
    return PipelineError(f"{old} is gone and {new} is not there: a file of a batch was removed")

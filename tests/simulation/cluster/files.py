"""The disk of a simulated node: real files, of which a loss of power leaves what was synced and some of the rest.

Logs lose an end of what was appended since they were last synced, or keep what was cut from them since. Files that are
replaced whole are the old or the new one, until they and their directory are synced. Indexes may be gone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from tests.simulation.disk import DiskFaults
from tests.simulation.world import World

LOST = (".index", ".timeindex", ".txnindex")
"""Made again from the log when they are missing."""
PLENTY_BYTES = 1 << 30


class Sync:
    """Of some files, under way."""

    def __init__(self, files: SyncedFiles, number: int) -> None:
        self._files = files
        self._number = number
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, dict[str, int]] = {}

    def finish(self) -> None:
        if self in self._files.under_way:
            self._files.under_way.remove(self)
            # One that began later may be done already, and saw what is newer.
            for inode, content in self.contents.items():
                if self._files.last_syncs.get(inode, -1) < self._number:
                    self._files.last_syncs[inode] = self._number
                    self._files.contents[inode] = content
            for place, names in self.names.items():
                if self._files.last_syncs.get(place, -1) < self._number:
                    self._files.last_syncs[place] = self._number
                    self._files.names[place] = names


class SyncedFiles:
    def __init__(self, world: World, path: Path, faults: DiskFaults) -> None:
        """`path` is where this node's directories are made, a new one after each crash."""
        self._world = world
        self._path = path
        self.faults = faults
        self._generation = 0
        self._syncs = 0
        self._collecting: Sync | None = None
        self.room_bytes: int | None = None
        """What the disk still takes; None for all that comes."""
        self._forget()
        self.directory.mkdir(parents=True)

    def _forget(self) -> None:
        self.contents: dict[int, bytes] = {}
        """Of every inode that was ever synced, as it was then."""
        self.names: dict[str, dict[str, int]] = {}
        """Of every directory that was ever synced: its files by inode."""
        self.last_syncs: dict[int | str, int] = {}
        """By inode or directory: the number of the sync that saw it last."""
        self.under_way: list[Sync] = []

    @property
    def directory(self) -> Path:
        return self._path / str(self._generation)

    # -- room --------------------------------------------------------------------------------------------------------

    def take_room(self, size_bytes: int) -> int:
        """How much of a write the disk takes; OSError when it takes nothing."""
        if self.room_bytes is None:
            return size_bytes
        if self.room_bytes == 0 and size_bytes > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = min(size_bytes, self.room_bytes)
        self.room_bytes -= taken
        return taken

    def give_room(self, size_bytes: int) -> None:
        if self.room_bytes is not None:
            self.room_bytes += size_bytes

    @property
    def free_bytes(self) -> int:
        return PLENTY_BYTES if self.room_bytes is None else self.room_bytes

    # -- syncing -------------------------------------------------------------------------------------------------------

    def synced(self, fd: int) -> None:
        """In place of `os.fsync`: of a file or of a directory."""
        path = os.readlink(f"/proc/self/fd/{fd}")
        sync = self._collecting or self._begin()
        if os.path.isdir(path):
            names = {entry.name: entry.inode() for entry in os.scandir(path) if entry.is_file()}
            sync.names[os.path.relpath(path, self.directory)] = names
        else:
            sync.contents[os.fstat(fd).st_ino] = _read(path)
        if self._collecting is None:
            sync.finish()

    def _begin(self) -> Sync:
        self._syncs += 1
        sync = Sync(self, self._syncs)
        self.under_way.append(sync)
        return sync

    @contextmanager
    def syncing(self) -> Iterator[Sync]:
        """What is synced meanwhile is on the disk when the sync is finished."""
        self._collecting = sync = self._begin()
        try:
            yield sync
        finally:
            self._collecting = None

    # -- the end of a process ------------------------------------------------------------------------------------------

    def crash(self, *, loses_power: bool) -> None:
        """The next process finds what is left in a new directory; the old one belongs to the dead."""
        for sync in list(self.under_way):
            if self._world.random.random() < 0.5:
                sync.finish()
        old, contents, names = self.directory, self.contents, self.names
        self._generation += 1
        self._forget()
        for parent, _, _ in sorted(os.walk(old)):
            place = os.path.relpath(parent, old)
            (self.directory / place).mkdir()
            known = names.get(place, {})
            kept = self.names[place] = {}
            for path in sorted(path for path in Path(parent).iterdir() if path.is_file()):
                inode, content = path.stat().st_ino, _read(str(path))
                if loses_power:
                    content = self._left_of(path, content, contents.get(inode), contents.get(known.get(path.name, -1)))
                if content is not None:
                    copied = self.directory / place / path.name
                    copied.write_bytes(content)
                    # What is left after a loss of power is on the disk; after a crash, what was synced still is.
                    synced = content if loses_power else contents.get(inode)
                    if synced is not None:
                        self.contents[copied.stat().st_ino] = synced
                    if loses_power or known.get(path.name) == inode:
                        kept[path.name] = copied.stat().st_ino

    def wipe(self) -> None:
        """Another disk is put in its place."""
        self._generation += 1
        self._forget()
        self.directory.mkdir(parents=True)

    def _left_of(self, path: Path, content: bytes, synced: bytes | None, before: bytes | None) -> bytes | None:
        """`synced`: this file when it was last synced. `before`: the file of this name when its directory was."""
        random = self._world.random
        if path.suffix == ".log":
            synced = synced or b""
            if content.startswith(synced):
                return content[: random.randint(len(synced), len(content))]
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(content, synced, strict=False)))
            return random.choice((synced, content[: random.randint(same, len(content))]))
        if path.suffix in LOST:
            return random.choice((content, None))
        # A file that was put in the place of another one: either of the two may be there.
        return content if before is None or before == content else random.choice((content, before))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()

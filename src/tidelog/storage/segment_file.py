"""A file of a log, a snapshot or a checkpoint, and the only owner of its descriptor.

Every byte of a log goes to the disk and comes from it through here, so that what must hold for all of them (encryption
at rest, later) has one place. Reads and writes name their position, so one file serves its readers in any thread.
After a write, the bytes are in the page cache and survive a crash of the process. After a sync they survive a crash of
the machine; the name of a new file does so only once its directory was synced too.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.reserve import reserve_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tidelog.codec.buffers import Buffer

READ: Final = os.O_RDONLY
READ_WRITE: Final = os.O_RDWR
WRITE_OR_CREATE: Final = os.O_WRONLY | os.O_CREAT
WRITE_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
READ_WRITE_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC
"""A file that is there already is emptied."""


class SegmentFile:
    """Closes itself when its last holder lets go; with `with`, at the end of the block."""

    __slots__ = ("_close", "_disk", "_fd", "path")

    def __init__(self, path: str, flags: int = READ_WRITE, disk: Disk = DISK) -> None:
        self._fd = -1
        self._disk = disk
        self._close: Callable[[int], None] = os.close
        """Kept here, because at the end of the process the module's names go before the files do."""
        self.path = path
        """As it was opened; the file may have been renamed or removed since."""
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __repr__(self) -> str:
        return f"SegmentFile({self.path!r})"

    def read(self, size: int, position: int) -> bytes:
        """`size` bytes, fewer only at the end of the file."""
        content = os.pread(self._fd, size, position)
        if len(content) == size or not content:
            return content
        parts = [content]
        got = len(content)
        while got < size and (content := os.pread(self._fd, size - got, position + got)):
            parts.append(content)
            got += len(content)
        return b"".join(parts)

    def write(self, content: Buffer, position: int) -> None:
        """All of the content; when the disk takes only a part, the next attempt raises OSError."""
        view = memoryview(content)
        while view:
            written = self._disk.pwrite(self._fd, view, position)
            position += written
            view = view[written:]

    def write_parts(self, parts: Sequence[Buffer], size: int, position: int) -> None:
        """The parts one behind the other, `size` bytes together, with one system call unless the disk is nearly full.

        After OSError some of them may be in the file.
        """
        written = self._disk.pwritev(self._fd, parts, position)
        if written != size:
            self.write(memoryview(b"".join(parts))[written:], position + written)

    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """The file is that long afterwards, and holds no reserved blocks behind its end."""
        os.ftruncate(self._fd, size)

    def reserve(self, size_bytes: int) -> None:
        """Reserve disk blocks for the first bytes without changing the size; OSError when the disk has no room."""
        reserve_blocks(self._fd, size_bytes)

    def sync(self) -> None:
        """After OSError nothing is known about the bytes: the kernel may have dropped them, and a second attempt would
        claim success."""
        self._disk.fsync(self._fd)

    def sync_data(self) -> None:
        """As `sync`, without times and other metadata that reading the bytes does not need."""
        self._disk.fdatasync(self._fd)

    def map(self) -> memoryview:
        """The whole file as it is now, without reading it. It must not shrink while the view is in use."""
        size = self.size_bytes()
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(self._fd, size, prot=mmap.PROT_READ)) if size else memoryview(b"")

    def send_to(self, socket_fd: int, position: int, size: int) -> int:
        """From the page cache into the socket without a copy into this process; how many bytes it took."""
        return os.sendfile(socket_fd, self._fd, position, size)

    def close(self) -> None:
        if self._fd >= 0:
            self._close(self._fd)
            self._fd = -1

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

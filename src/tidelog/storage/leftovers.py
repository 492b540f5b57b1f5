"""Files that no log has any more, until their space is freed.

What a log drops is renamed at once and removed later, in another thread: to unlink a segment of a gigabyte takes the
file system a good part of a second. `file.delete.delay.ms` says how much later. The wait is not needed (readers hold
the files they read open), so it ends early when the disk has less room than what waits would free.
A start removes what a crash left behind: the names say that it is not wanted any more.
"""

from __future__ import annotations

import heapq
import logging
import os
import shutil
from collections.abc import Sequence

logger = logging.getLogger("tidelog.storage")


class Leftovers:
    """Owned by one thread; `remove_all` does the rest in any."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, str, int]] = []
        """Due time, path and bytes, the earliest first."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, paths: Sequence[str], size_bytes: int, due_ms: int) -> None:
        """`size_bytes`: of all of them together."""
        for path in paths:
            heapq.heappush(self._waiting, (due_ms, path, size_bytes))
            size_bytes = 0

    def take_due(self, now_ms: int, free_bytes: int) -> list[str]:
        """What is to be removed now; `free_bytes`: what the disk has left."""
        if sum(size_bytes for _, _, size_bytes in self._waiting) > free_bytes:
            now_ms = max(due_ms for due_ms, _, _ in self._waiting)
        due: list[str] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            due.append(heapq.heappop(self._waiting)[1])
        return due


def remove_all(paths: Sequence[str]) -> int:
    """Remove files and directories; how many went. What cannot be removed is left to the next start."""
    removed = 0
    for path in paths:
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
            removed += 1
        except FileNotFoundError:
            # Its directory was deleted in the meantime.
            continue
        except OSError as error:
            logger.warning("cannot remove %s: %s", path, error)
    return removed

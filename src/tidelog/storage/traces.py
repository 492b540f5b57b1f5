"""What a start puts into a data directory before it has data: taken back when that start fails.

Only what was not there before is removed, and nothing at all from a directory that belonged to a node already.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tidelog.storage.files import remove_if_present
from tidelog.storage.log_directory_identity import LOCK_FILE, META_FILE
from tidelog.storage.reserved_room import RESERVE_FILE

OWN_FILES = (RESERVE_FILE, META_FILE, LOCK_FILE)
"""The lock goes last: until then no other process begins here."""


class Traces:
    """Made before the directory is touched; `take_back` is for the holder of the directory's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._missing = [path for path in (directory, *directory.parents) if not path.exists()]
        """The directories that will have to be made, the deepest first."""
        self._before: frozenset[str] | None = None
        """None when the directory cannot be read."""
        with suppress(OSError):
            self._before = frozenset() if self._missing else frozenset(os.listdir(directory))

    def take_back(self) -> bool:
        """Whether there was anything to take back: False for a directory that had an owner."""
        if self._before is None or META_FILE in self._before:
            return False
        with suppress(OSError):
            for name in OWN_FILES:
                if name not in self._before:
                    remove_if_present(str(self._directory / name))
            for path in self._missing:
                # Another process may have put something there meanwhile: then it stays, and so do those above.
                path.rmdir()
        return True

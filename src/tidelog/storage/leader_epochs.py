"""Which leader epoch wrote which offsets: where each epoch begins, kept in `leader-epoch-checkpoint`.

The file is text, as Kafka's: version 0, the number of entries, then `epoch start-offset` per line. Followers and
consumers compare these with the leader's to find where two logs part. The file is replaced whole when an epoch
begins and is not synced: every batch carries its epoch, so what a crash takes is read from the log again.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.errors import CorruptIndex
from tidelog.storage.files import read_whole, write_whole

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1

logger = logging.getLogger("tidelog.storage")


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


def decode_checkpoint(content: bytes) -> list[EpochStart]:
    """The entries of a checkpoint file; CorruptIndex when it is not one."""
    try:
        lines = content.decode("ascii").splitlines()
        if lines[0].strip() != "0":
            raise CorruptIndex(f"its version is {lines[0]!r}")
        entries = [EpochStart(*map(int, line.split())) for line in lines[2:] if line.strip()]
        if len(entries) != int(lines[1]):
            raise CorruptIndex(f"it announces {lines[1]} entries and has {len(entries)}")
    except (IndexError, ValueError, TypeError) as error:
        raise CorruptIndex(str(error)) from None
    return entries


def encode_checkpoint(entries: list[EpochStart]) -> bytes:
    lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
    return ("\n".join(lines) + "\n").encode("ascii")


class LeaderEpochs:
    """Both epochs and start offsets strictly ascend from entry to entry."""

    __slots__ = ("_disk", "_entries", "_unsaved", "latest_epoch", "path")

    def __init__(self, path: str, entries: list[EpochStart], disk: Disk = DISK) -> None:
        self.path = path
        self._disk = disk
        self._entries = entries
        self._unsaved = False
        self.latest_epoch = entries[-1].epoch if entries else NO_EPOCH

    @classmethod
    def load(cls, path: str, disk: Disk = DISK) -> LeaderEpochs:
        """From the file; no file means no epochs, a damaged one raises CorruptIndex."""
        content = read_whole(path)
        return cls(path, decode_checkpoint(content) if content is not None else [], disk)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """The epoch begins at the offset. Entries that contradict it (of a log that was cut and written again) go."""
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self._changed()

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at the offset: epochs that began at or behind it never happened."""
        keep = bisect_left(self._entries, end_offset, key=lambda entry: entry.start_offset)
        if keep < len(self._entries):
            del self._entries[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at the offset: the epoch it falls into begins there too."""
        entries = self._entries
        covered = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if covered == 0 or (covered == 1 and entries[0].start_offset == start_offset):
            return
        entries[:covered] = [EpochStart(entries[covered - 1].epoch, start_offset)]
        self._changed()

    def clear(self) -> None:
        if self._entries:
            self._entries.clear()
            self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to `epoch` and where it ends; (-1, -1) when the log cannot tell."""
        entries = self._entries
        if epoch < 0 or not entries or epoch > self.latest_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        return (entries[above - 1].epoch if above else epoch), entries[above].start_offset

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch the offset was written in, -1 when it is before every known one."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return NO_EPOCH if at < 0 else self._entries[at].epoch

    def _changed(self) -> None:
        self.latest_epoch = self._entries[-1].epoch if self._entries else NO_EPOCH
        self._unsaved = True
        self.save()

    def save(self) -> None:
        """A file that cannot be written now is written with the next change, flush or close."""
        if not self._unsaved:
            return
        try:
            write_whole(self.path, encode_checkpoint(self._entries), disk=self._disk)
            self._unsaved = False
        except OSError as error:
            logger.warning("cannot write %s yet: %s", self.path, error)

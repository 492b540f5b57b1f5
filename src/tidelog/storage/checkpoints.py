"""Kafka's checkpoint files: one offset per partition, as text, in the data directory.

Version 0, the number of entries, then `topic partition offset` per line. They save work, never decide what exists: a
file that is missing or damaged counts as empty, and recovery then reads more of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidelog.model.ids import TopicPartition
from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.files import read_whole, write_whole
from tidelog.storage.recovery import LogHint

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
"""Up to where each log was flushed."""
LOG_START_FILE = "log-start-offset-checkpoint"
"""Where each log begins, if that is not where its first segment begins."""
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
"""Up to where each compacted log was compacted."""

LOG_ENDS_FILE = "log-end-checkpoint"
"""Where each log ended at the last clean stop. Not one of Kafka's: with it a start reads no segment at all."""

_VERSION = "0"

logger = logging.getLogger("tidelog.storage")


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [_VERSION, str(len(offsets))]
    lines += (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """ValueError when it is no such file."""
    lines = content.decode().splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise ValueError(f"version {lines[0] if lines else 'missing'}")
    offsets = {}
    for line in lines[2:]:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    if len(offsets) != int(lines[1]):
        raise ValueError(f"{lines[1]} entries announced, {len(offsets)} found")
    return offsets


def read_offsets(path: str) -> dict[TopicPartition, int]:
    content = read_whole(path)
    if content is None:
        return {}
    try:
        return decode_offsets(content)
    except ValueError as error:
        logger.warning("ignoring %s, which is damaged: %s", path, error)
        return {}


def write_offsets(path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = False, disk: Disk = DISK) -> None:
    """Replaces the file. Unsynced, a crash of the machine may leave an older or a damaged one; both are safe."""
    write_whole(path, encode_offsets(offsets), sync=sync, disk=disk)


def write_log_ends(path: str, hints: Mapping[TopicPartition, LogHint], disk: Disk = DISK) -> None:
    """`topic partition active-base active-size end` per line; not synced, since a log does not believe it blindly."""
    lines = [_VERSION, str(len(hints))]
    lines += (f"{topic} {partition} {' '.join(map(str, hint))}" for (topic, partition), hint in sorted(hints.items()))
    write_whole(path, ("\n".join(lines) + "\n").encode(), disk=disk)


def read_log_ends(path: str) -> dict[TopicPartition, LogHint]:
    content = read_whole(path)
    hints: dict[TopicPartition, LogHint] = {}
    if content is None:
        return hints
    try:
        lines = content.decode().splitlines()
        if lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
            raise ValueError(f"{len(lines)} lines of version {lines[0]}")
        for line in lines[2:]:
            topic, partition, base, size, end = line.split(" ")
            hints[TopicPartition(topic, int(partition))] = LogHint(int(base), int(size), int(end))
    except (ValueError, IndexError) as error:
        logger.warning("ignoring %s, which is damaged: %s", path, error)
        return {}
    return hints

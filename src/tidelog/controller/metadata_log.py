"""The metadata on disk: `__cluster_metadata-0` with its log and snapshots. Synchronous; owned by the controller.

Each decision is one batch, so a crash leaves it whole or not at all. A snapshot shortens the log; the one before it and
the log after that are kept, so that a damaged snapshot can be done without.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.config.setting import INT64_MAX
from tidelog.config.topic import TopicConfig
from tidelog.metadata.framing import UnreadableMetadata, decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import METADATA_TOPIC, MetadataImage
from tidelog.metadata.replay import ImageBuilder
from tidelog.metadata.snapshot import (
    SnapshotId,
    build_metadata_batch,
    decode_metadata_batch,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
)
from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import decode_header, iterate_whole_headers
from tidelog.storage.directory_identity import DirectoryRefused
from tidelog.storage.files import read_whole, remove_if_present, write_whole
from tidelog.storage.log import Log
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.protocol.message import Message

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id Kafka gives this topic."""

READ_BYTES = 4 * 1024 * 1024
SNAPSHOTS_KEPT = 2

logger = get_logger("tidelog.controller")


class MetadataLog:
    def __init__(self, data_directory: Path, *, segment_bytes: int, now_ms: Callable[[], int]) -> None:
        self.directory = data_directory / str(METADATA_PARTITION)
        self._now_ms = now_ms
        self._config = TopicConfig(
            segment_bytes=segment_bytes, segment_ms=INT64_MAX // 2, retention_ms=-1, cleanup_policy=frozenset()
        )
        self._log: Log | None = None
        self.snapshots: list[SnapshotId] = []
        """On disk, oldest first."""
        self.bytes_since_snapshot = 0

    @property
    def log(self) -> Log:
        assert self._log is not None, "the metadata log is not open"
        return self._log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    def load(self, cluster_id: str, node_id: int) -> MetadataImage:
        """Opens the log and replays it: the newest snapshot that can be read, then the log from there on.

        Raises DirectoryRefused, in one line, when what is on disk does not give an image.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        image, damaged = self._load_snapshot(MetadataImage(cluster_id=cluster_id, controller_id=node_id))
        try:
            self._log = log = Log.open(
                self.directory,
                METADATA_PARTITION,
                self._config,
                topic_id=METADATA_TOPIC_ID,
                now_ms=self._now_ms,
                recovery_point=image.next_offset,
                clean_shutdown=False,
            )
            if log.log_end_offset < image.next_offset:
                # The crash came between snapshot and the log behind it; the snapshot holds everything.
                log.truncate_fully_and_start_at(image.next_offset)
            if log.log_start_offset > image.next_offset:
                raise UnreadableMetadata(
                    f"records from {image.next_offset} to {log.log_start_offset} are in no readable snapshot"
                )
            return self._replay_log(image)
        except BrokerError as error:
            cause = f" (after {damaged})" if damaged else ""
            raise DirectoryRefused(
                f"the metadata in {self.directory} cannot be read: {error.message}{cause}"
            ) from error

    def _load_snapshot(self, empty: MetadataImage) -> tuple[MetadataImage, str]:
        """The newest readable image, and what was wrong with a newer one."""
        found: list[SnapshotId] = []
        for name in os.listdir(self.directory):
            snapshot = parse_snapshot_name(name)
            if snapshot is not None:
                found.append(snapshot)
            elif name.endswith((".tmp", ".part")):
                remove_if_present(str(self.directory / name))
        damaged = ""
        for snapshot in sorted(found, reverse=True):
            try:
                data = read_whole(str(self.directory / snapshot.file_name)) or b""
                image, _ = decode_snapshot(data, snapshot, empty)
            except UnreadableMetadata as error:
                damaged = damaged or f"snapshot {snapshot.file_name}: {error.message}"
                logger.warning("metadata snapshot is damaged", file=snapshot.file_name, reason=error.message)
                remove_if_present(str(self.directory / (snapshot.file_name + ".damaged")))
                os.replace(self.directory / snapshot.file_name, self.directory / (snapshot.file_name + ".damaged"))
                found.remove(snapshot)
                continue
            self.snapshots = sorted(found)
            return image, damaged
        return empty, damaged

    def _replay_log(self, image: MetadataImage) -> MetadataImage:
        log = self.log
        builder = ImageBuilder(image)
        offset, epoch = image.next_offset, image.epoch
        while offset < log.log_end_offset:
            data = log.read(offset, READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True).load()
            before = offset
            for position, header in iterate_whole_headers(data):
                if header.base_offset < offset:
                    continue
                for value in decode_metadata_batch(data[position : position + header.size_in_bytes]):
                    builder.replay(decode_metadata_record(value))
                offset, epoch = header.next_offset, header.partition_leader_epoch
                self.bytes_since_snapshot += header.size_in_bytes
            if offset == before:
                raise UnreadableMetadata(f"no batch at offset {offset}")
        return builder.finish(offset - 1, max(epoch, 0))[0]

    def append(self, records: Sequence[Message], epoch: int) -> int:
        """Writes one batch and returns the offset after it. It survives the process now, the machine after a flush.

        Raises StorageFailure with nothing changed.
        """
        now_ms = self._now_ms()
        batch = build_metadata_batch([encode_metadata_record(record) for record in records], now_ms)
        self.log.append_as_leader(batch, decode_header(batch), epoch, now_ms)
        self.bytes_since_snapshot += len(batch)
        return self.log.log_end_offset

    def begin_snapshot(self) -> None:
        """The next segment begins where the snapshot ends, so that whole segments can go once it is written."""
        try:
            self.log.roll()
        except BrokerError as error:
            logger.warning("metadata log cannot begin a segment", reason=error.message)

    def write_snapshot(self, image: MetadataImage) -> SnapshotId:
        """Writes and syncs; touches nothing the owner of the log uses, so it may run in another thread."""
        snapshot = SnapshotId(image.next_offset, image.epoch)
        write_whole(str(self.directory / snapshot.file_name), encode_snapshot(image, self._now_ms()), sync=True)
        return snapshot

    def adopt_snapshot(self, snapshot: SnapshotId, bytes_since: int) -> None:
        """The snapshot is on disk: what the snapshot before it stands for is no longer needed."""
        self.bytes_since_snapshot = bytes_since
        if snapshot not in self.snapshots:
            self.snapshots.append(snapshot)
        while len(self.snapshots) > SNAPSHOTS_KEPT:
            remove_if_present(str(self.directory / self.snapshots.pop(0).file_name))
        if len(self.snapshots) == SNAPSHOTS_KEPT:
            oldest = self.snapshots[0].end_offset
            self.log.delete_old_segments(lambda segment: True, oldest)

    def close(self) -> None:
        if self._log is not None:
            self._log.close(clean=True)
            self._log = None

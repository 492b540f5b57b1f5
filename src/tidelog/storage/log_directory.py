"""The data directory of a node: its owner, which logs lie in it, and what is remembered from the last stop.

Opening takes the lock and reads the small files; each log is opened when the node asks for it. A clean stop leaves
checkpoints and a marker, so that the next start scans nothing. Deleting a log renames its directory first: after that
it is gone, whatever happens to the removal of the files. Owned by one thread.
"""

from __future__ import annotations

import json
import logging
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.limits import TOPIC_NAME_LENGTH_MAX
from tidelog.runtime.disk import Folder
from tidelog.runtime.system import SYSTEM, System
from tidelog.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_ENDS_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_log_ends,
    read_offsets,
    write_log_ends,
    write_offsets,
)
from tidelog.storage.files import read_whole, remove_if_present, sync_directory, write_whole
from tidelog.storage.leftovers import Leftovers
from tidelog.storage.log import PRODUCER_EXPIRATION_MS, Log, LogHint
from tidelog.storage.log_directory_identity import DirectoryLock, DirectoryRefused, claim_identity
from tidelog.storage.log_flusher import flush_together
from tidelog.storage.reserved_room import ReservedRoom
from tidelog.storage.traces import Traces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.config.topic import TopicConfig

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
FILE_NAME_LENGTH_MAX = 255

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_DELETED_DIRECTORY = re.compile(r".+\.[0-9a-f]{32}-delete")

logger = logging.getLogger("tidelog.storage")


def check_topic_name(topic: str) -> None:
    """Names become directory names: the last gate before the file system, whatever the layers above let through."""
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", "..") or len(topic) > TOPIC_NAME_LENGTH_MAX:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic[:TOPIC_NAME_LENGTH_MAX]!r} cannot name a log.")


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition a directory belongs to, None when it is not one of a log."""
    topic, _, partition = name.rpartition("-")
    if not partition.isascii() or not partition.isdigit() or str(int(partition)) != partition:
        return None
    return TopicPartition(topic, int(partition)) if _TOPIC_NAME.fullmatch(topic) else None


class LogDirectory:
    """Made by `open`. `logs` holds every log that is open; `clean_shutdown` says how the last owner left."""

    def __init__(self, path: Path, lock: DirectoryLock, system: System) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.cluster_id = ""
        self.directory_id = ""
        self.clean_shutdown = False
        self.last_broker_epoch = -1
        """Of the last clean stop; -1 when there was none."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As checkpointed by the last owner."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """Up to where compaction has come, per compacted log."""
        self._lock = lock
        self.system = system
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._log_ends: dict[TopicPartition, LogHint] = {}
        """Of logs closed cleanly and not opened since."""
        self._leftovers = Leftovers()
        self._traces: Traces | None = None
        self.reserved_room = ReservedRoom(Folder(str(path), system.disk))

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        node_id: int,
        cluster_id: str | None,
        directory_id: str | None = None,
        system: System = SYSTEM,
    ) -> LogDirectory:
        """Lock and read the directory, making it when it is missing; DirectoryRefused when it cannot be had.

        `directory_id` is for a new directory whose id other nodes know already.
        """
        traces = Traces(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DirectoryRefused(f"the data directory {path} cannot be made: {error.strerror}") from None
        lock = DirectoryLock(str(path), system.disk)
        try:
            directory = cls(path, lock, system)
            directory._traces = traces
            directory.reserved_room.settle()
            identity = claim_identity(str(path), node_id, cluster_id, directory_id, system)
            directory.cluster_id = identity.cluster_id
            directory.directory_id = identity.directory_id
            directory._load_state()
        except OSError as error:
            traces.take_back()
            lock.release()
            raise DirectoryRefused(f"the data directory {path} cannot be used: {error}") from None
        except BaseException:
            traces.take_back()
            lock.release()
            raise
        return directory

    def abandon(self) -> bool:
        """Instead of `close`, by a start that failed before it wrote anything: leaves a new directory as it was before.

        False for one that had an owner before; that one has to be closed.
        """
        if self._traces is None or self.logs or not self._traces.take_back():
            return False
        self._lock.release()
        return True

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _load_state(self) -> None:
        marker = read_whole(self._file(CLEAN_SHUTDOWN_FILE))
        if marker is not None:
            self.clean_shutdown = True
            try:
                self.last_broker_epoch = int(json.loads(marker)["brokerEpoch"])
            except (ValueError, KeyError, TypeError):
                logger.warning("%s is there, but does not name a broker epoch", CLEAN_SHUTDOWN_FILE)
            # From here on logs change: the marker must not outlive the state it describes.
            os.unlink(self._file(CLEAN_SHUTDOWN_FILE))
            sync_directory(str(self.path), self.system.disk)
        self._recovery_points = read_offsets(self._file(RECOVERY_POINT_FILE))
        self._log_starts = read_offsets(self._file(LOG_START_FILE))
        self.high_watermarks = read_offsets(self._file(HIGH_WATERMARK_FILE))
        self.cleaner_offsets = read_offsets(self._file(CLEANER_FILE))
        if self.clean_shutdown:
            self._log_ends = read_log_ends(self._file(LOG_ENDS_FILE))
        remove_if_present(self._file(LOG_ENDS_FILE))
        with os.scandir(self.path) as entries:
            half_removed = [
                entry.path for entry in entries if entry.is_dir() and _DELETED_DIRECTORY.fullmatch(entry.name)
            ]
        self._leftovers.add(half_removed, 0, due_ms=0)

    # -- logs ----------------------------------------------------------------------------------------------------

    def list_partitions(self) -> list[TopicPartition]:
        """Every log that lies in the directory, open or not."""
        with os.scandir(self.path) as entries:
            found = [parse_directory_name(entry.name) for entry in entries if entry.is_dir()]
        return sorted(partition for partition in found if partition is not None)

    def partition_path(self, topic_partition: TopicPartition) -> Path:
        check_topic_name(topic_partition.topic)
        if topic_partition.partition < 0:
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"There is no partition {topic_partition.partition}.")
        return self.path / f"{topic_partition.topic}-{topic_partition.partition}"

    def open_log(
        self,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: bytes | None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> Log:
        """The log of a partition, opened (recovered after a crash) or made new; the same object while it is open."""
        log = self.logs.get(topic_partition)
        if log is None:
            log = self.opener(
                topic_partition, config, topic_id=topic_id, producer_id_expiration_ms=producer_id_expiration_ms
            )()
            self.adopt(log)
        return log

    def opener(
        self,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: bytes | None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> Callable[[], Log]:
        """Opens a log that is not open, in any thread; the owner then adopts it."""
        return partial(
            Log.open,
            self.partition_path(topic_partition),
            topic_partition,
            config,
            topic_id=topic_id,
            system=self.system,
            recovery_point=self._recovery_points.get(topic_partition, 0),
            log_start_offset=self._log_starts.get(topic_partition),
            clean_shutdown=self.clean_shutdown or topic_partition in self._log_ends,
            hint=self._log_ends.pop(topic_partition, None),
            producer_id_expiration_ms=producer_id_expiration_ms,
            leftovers=self._leftovers,
        )

    def adopt(self, log: Log) -> None:
        assert log.topic_partition not in self.logs, "a log is opened once"
        self.logs[log.topic_partition] = log

    def close_log(self, topic_partition: TopicPartition) -> None:
        """Let go of a log without deleting it; what is known of it stays in the checkpoints."""
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            log.close()
            self._remember(topic_partition, log)
            self._log_ends[topic_partition] = log.hint

    def delete_log(self, topic_partition: TopicPartition) -> None:
        self.delete_logs([topic_partition])

    def delete_logs(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """After this the logs do not exist, not even after a crash; their space is freed later."""
        renamed = [self._rename_deleted(topic_partition) for topic_partition in topic_partitions]
        if any(renamed):
            sync_directory(str(self.path), self.system.disk)

    def _rename_deleted(self, topic_partition: TopicPartition) -> bool:
        """Whether there was such a log."""
        log = self.logs.pop(topic_partition, None)
        path = str(self.partition_path(topic_partition))
        size_bytes = delay_ms = 0
        if log is not None:
            log.close(clean=False)
            size_bytes, delay_ms = log.size_bytes, log.config.file_delete_delay_ms
        self._log_ends.pop(topic_partition, None)
        for offsets in (self._recovery_points, self._log_starts, self.high_watermarks, self.cleaner_offsets):
            offsets.pop(topic_partition, None)
        suffix = f"-{topic_partition.partition}.{self.system.random_bytes(16).hex()}{DELETE_SUFFIX}"
        doomed = self._file(topic_partition.topic[: FILE_NAME_LENGTH_MAX - len(suffix)] + suffix)
        try:
            os.rename(path, doomed)
        except FileNotFoundError:
            return False
        self._leftovers.add([doomed], size_bytes, self.system.wall_clock_ms() + delay_ms)
        return True

    def take_leftovers(self) -> list[str]:
        """Files and directories of what was dropped, deleted or left half removed by a crash, as far as they are due:
        `remove_all` them, in any thread."""
        if not self._leftovers:
            return []
        system = self.system
        return self._leftovers.take_due(system.wall_clock_ms(), system.disk.room_at(self.path).free_bytes)

    # -- checkpoints and closing ---------------------------------------------------------------------------------

    def _remember(self, topic_partition: TopicPartition, log: Log) -> None:
        self._recovery_points[topic_partition] = log.recovery_point
        if log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[topic_partition] = log.log_start_offset
        else:
            self._log_starts.pop(topic_partition, None)

    def write_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None, *, sync: bool = False
    ) -> None:
        """Save recovery points, log starts and (where given) high watermarks; OSError when the disk refuses."""
        for topic_partition, log in self.logs.items():
            self._remember(topic_partition, log)
        write_offsets(self._file(RECOVERY_POINT_FILE), self._recovery_points, sync=sync, disk=self.system.disk)
        write_offsets(self._file(LOG_START_FILE), self._log_starts, sync=sync, disk=self.system.disk)
        if high_watermarks is not None:
            self.high_watermarks.update(high_watermarks)
            write_offsets(self._file(HIGH_WATERMARK_FILE), self.high_watermarks, sync=sync, disk=self.system.disk)

    def write_log_starts(self) -> None:
        """Save where the logs begin: what DeleteRecords promised must hold after a crash."""
        for topic_partition, log in self.logs.items():
            self._remember(topic_partition, log)
        write_offsets(self._file(LOG_START_FILE), self._log_starts, disk=self.system.disk)

    def write_cleaner_offsets(self) -> None:
        write_offsets(self._file(CLEANER_FILE), self.cleaner_offsets, disk=self.system.disk)

    def close(
        self, *, clean: bool = True, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Close every log. If all of them could be flushed, a clean stop leaves the marker that says so."""
        unflushed = flush_together(list(self.logs.values()), self.system.disk) if clean else {}
        for topic_partition, log in self.logs.items():
            try:
                if log in unflushed:
                    log.close(clean=False)
                    raise unflushed[log]
                log.close(clean=clean)
            except (OSError, BrokerError) as error:
                clean = False
                logger.error("%s could not be closed cleanly: %s", topic_partition, error)
        if clean:
            try:
                self.write_checkpoints(high_watermarks, sync=True)
                self._log_ends.update((topic_partition, log.hint) for topic_partition, log in self.logs.items())
                write_log_ends(self._file(LOG_ENDS_FILE), self._log_ends, self.system.disk)
                marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
                write_whole(self._file(CLEAN_SHUTDOWN_FILE), marker.encode(), sync=True, disk=self.system.disk)
            except OSError as error:
                logger.error("the next start will check all logs: %s", error)
                remove_if_present(self._file(CLEAN_SHUTDOWN_FILE))
        self.logs.clear()
        self._lock.release()

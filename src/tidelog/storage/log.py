"""One replica of a partition: a state, and what reads it, appends to it, rearranges it and brings it to the disk.

Owned by one thread. Appended bytes are in the page cache (they survive the process); a flush makes them survive the
machine and moves the recovery point. Here a log is opened, closed and deleted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.runtime.disk import Folder
from tidelog.runtime.system import SYSTEM, System
from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import remove_if_present
from tidelog.storage.log_flusher import LogFlusher
from tidelog.storage.log_reader import LogReader
from tidelog.storage.log_rearranger import LogRearranger
from tidelog.storage.log_state import LogState
from tidelog.storage.log_writer import AppendResult, LogWriter, reserved_bytes
from tidelog.storage.partition_metadata import write_partition_metadata
from tidelog.storage.recovery import LogHint, load_log

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.config.topic import TopicConfig
    from tidelog.model.ids import TopicPartition
    from tidelog.storage.leader_epochs import LeaderEpochs
    from tidelog.storage.leftovers import Leftovers
    from tidelog.storage.producer_state import ProducerState
    from tidelog.storage.segment import Segment

__all__ = ["AppendResult", "Log", "LogHint"]

PRODUCER_EXPIRATION_MS = 86_400_000
"""Default of `producer.id.expiration.ms`."""

logger = logging.getLogger("tidelog.storage")


class Log:
    """`reader`, `writer`, `rearranger` and `flusher` share one `LogState`, whose fields are shown here to be read."""

    __slots__ = ("_state", "flusher", "reader", "rearranger", "wall_clock_ms", "was_recovered", "writer")

    def __init__(self, state: LogState, leftovers: Leftovers | None, was_recovered: bool) -> None:
        self._state = state
        self.reader = LogReader(state)
        self.writer = LogWriter(state)
        self.rearranger = LogRearranger(state, self.writer, leftovers)
        self.flusher = LogFlusher(state)
        self.wall_clock_ms: Callable[[], int] = state.system.wall_clock_ms
        self.was_recovered = was_recovered
        """Whether the log was scanned when it was opened."""

    @classmethod
    def open(
        cls,
        directory: Path | str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: bytes | None = None,
        system: System = SYSTEM,
        recovery_point: int = 0,
        log_start_offset: int | None = None,
        clean_shutdown: bool,
        hint: LogHint | None = None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        leftovers: Leftovers | None = None,
    ) -> Log:
        """Open the log in the directory, or create it there.

        Raises CorruptLog when a closed segment is damaged, StorageFailure when the disk refuses. `recovery_point`
        counts only after a crash: a clean shutdown says that everything was flushed. A stale `hint` is ignored.
        Without `leftovers`, the files of dropped segments are removed at once.
        """
        folder = Folder(os.fspath(directory), system.disk)
        try:
            loaded = load_log(
                folder,
                now_ms=system.wall_clock_ms(),
                expiration_ms=producer_id_expiration_ms,
                index_interval_bytes=config.index_interval_bytes,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean_shutdown=clean_shutdown,
                hint=hint,
                reserved_bytes=reserved_bytes(config),
            )
            state = LogState(
                folder,
                topic_partition,
                config,
                loaded,
                recovery_point=min(recovery_point, loaded.log_end_offset)
                if loaded.recovered
                else loaded.log_end_offset,
                system=system,
            )
            log = cls(state, leftovers, loaded.recovered)
            if topic_id is not None and not loaded.has_metadata:
                write_partition_metadata(folder.path, topic_id, folder.disk)
            if log.log_end_offset < log.log_start_offset:
                logger.warning(
                    "%s ends at offset %d, below its start %d: starting again there",
                    topic_partition,
                    log.log_end_offset,
                    log.log_start_offset,
                )
                log.rearranger.truncate_fully_and_start_at(log.log_start_offset)
        except OSError as error:
            raise StorageFailure(f"{topic_partition} cannot be opened: {error}") from error
        return log

    def __repr__(self) -> str:
        extent = f"[{self.log_start_offset}, {self.log_end_offset})"
        return f"Log({self.topic_partition}, {extent}, {len(self.segments)} segments)"

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        return self._state.topic_partition

    @property
    def directory(self) -> str:
        return self._state.folder.path

    @property
    def config(self) -> TopicConfig:
        return self._state.config

    def update_config(self, config: TopicConfig) -> None:
        self._state.update_config(config)

    @property
    def log_start_offset(self) -> int:
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk for good."""
        return self._state.recovery_point

    @property
    def segments(self) -> list[Segment]:
        """In order; never empty. Not to be changed by the caller."""
        return self._state.segments

    @property
    def active_segment(self) -> Segment:
        return self._state.active_segment

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._state.segments)

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last batch as far as known."""
        return self._state.latest_epoch

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return self._state.leader_epochs

    @property
    def producer_state(self) -> ProducerState:
        return self._state.producer_state

    @property
    def is_closed(self) -> bool:
        return self._state.is_closed

    @property
    def hint(self) -> LogHint:
        """What makes the next open after a clean stop cheap."""
        active = self._state.active_segment
        return LogHint(active.base_offset, active.size, self._state.log_end_offset)

    # -- closing -------------------------------------------------------------------------------------------------

    def close(self, *, clean: bool = True) -> None:
        """Let go of all files. A clean close flushes and saves what makes the next open cheap: indexes, producers."""
        if self._state.is_closed:
            return
        if clean:
            self._save_for_clean_open()
        self._state.become_closed()
        for segment in self._state.segments:
            segment.release()

    def _save_for_clean_open(self) -> None:
        self.flusher.flush()
        state = self._state
        active = state.active_segment
        active.cut_failed_write()
        if state.config.preallocate:
            active.open_file().truncate(active.size)
        active.largest_timestamp()
        active.load_offset_index()
        active.close_indexes()
        state.save_leader_epochs()
        state.save_producers()

    def delete(self) -> None:
        """Remove the partition's directory and everything in it. Regions handed out earlier stay readable."""
        self.close(clean=False)
        for name in os.listdir(self.directory):
            remove_if_present(os.path.join(self.directory, name))
        os.rmdir(self.directory)

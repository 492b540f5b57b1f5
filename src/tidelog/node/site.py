"""Where a node is: its settings, its data directory, its addresses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model.ids import decode_topic_id
from tidelog.model.value import Value
from tidelog.node.closing import Closing, Step
from tidelog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.image import Endpoint
    from tidelog.node.doors import Doors
    from tidelog.node.way_in import WayIn
    from tidelog.runtime.system import System


class Site(Value):
    """The data directory is locked and the addresses are taken: the node can be known to others."""

    config: BrokerConfig
    directory: LogDirectory
    doors: Doors

    @property
    def directory_id(self) -> bytes:
        return decode_topic_id(self.directory.directory_id)

    @property
    def own_endpoint(self) -> Endpoint:
        """Where other nodes reach this one."""
        name = self.config.inter_node_listener_name
        return next(each for each in self.doors.endpoints if each.name == name)


def open_directory(way_in: WayIn, system: System, closing: Closing) -> LogDirectory:
    """Raises DirectoryRefused. Until the node has written something for its cluster, a stop leaves a new directory as
    it was before."""
    directory = LogDirectory.open(
        Path(way_in.config.data_directory),
        node_id=way_in.config.node_id,
        cluster_id=way_in.cluster_id,
        directory_id=way_in.directory_id,
        system=system,
    )

    def leave() -> None:
        # No other node has heard of a directory that is new.
        if not directory.abandon():
            close_unchanged(directory)

    closing.note(Step.DIRECTORY, leave)
    return directory


def close_unchanged(directory: LogDirectory) -> None:
    """Of a start that failed before all logs were open: what the last owner left holds."""
    directory.close(clean=directory.clean_shutdown, broker_epoch=directory.last_broker_epoch)

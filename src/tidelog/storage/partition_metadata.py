"""`partition.metadata`: the topic id a partition's directory belongs to, as Kafka writes it.

Not synced: the id is in the cluster metadata too, and an empty or missing file is simply written again.
"""

from __future__ import annotations

import os

from tidelog.model.ids import decode_topic_id, encode_topic_id
from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.files import PARTITION_METADATA_FILE, read_whole, write_whole


def write_partition_metadata(directory: str, topic_id: bytes, disk: Disk = DISK) -> None:
    content = f"version: 0\ntopic_id: {encode_topic_id(topic_id)}"
    write_whole(os.path.join(directory, PARTITION_METADATA_FILE), content.encode("ascii"), disk=disk)


def read_partition_metadata(directory: str) -> bytes | None:
    """The topic id, or None when the file is missing or says nothing readable."""
    content = read_whole(os.path.join(directory, PARTITION_METADATA_FILE)) or b""
    for line in content.decode("ascii", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                return decode_topic_id(value.strip())
            except ValueError:
                return None
    return None

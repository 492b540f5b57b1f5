"""`quorum-state`: the term and the vote of this node, in the JSON that Kafka keeps under that name, with a checksum.

It is replaced whole and synced before a vote is sent. A node that cannot read how it voted must not vote again:
a damaged file stops the start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from tidelog.codec.crc32c import crc32c
from tidelog.model.ids import decode_topic_id, encode_topic_id
from tidelog.raft.core.effects import HardState
from tidelog.raft.core.members import ANY_DIRECTORY
from tidelog.raft.core.settings import NOBODY
from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.files import read_whole, write_whole

QUORUM_STATE_FILE = "quorum-state"
TERM_MAX = 2**31 - 1

_VERSION = 1


class DamagedQuorumState(Exception):
    """The file does not say how this node voted."""


def read_quorum_state(directory: str) -> HardState | None:
    """None when there is none yet."""
    content = read_whole(os.path.join(directory, QUORUM_STATE_FILE))
    return None if content is None else decode_quorum_state(content)


def write_quorum_state(directory: str, state: HardState, disk: Disk = DISK) -> None:
    """After this the term and the vote survive a crash of the machine; OSError when the disk refuses."""
    write_whole(os.path.join(directory, QUORUM_STATE_FILE), encode_quorum_state(state), sync=True, disk=disk)


def encode_quorum_state(state: HardState) -> bytes:
    fields: dict[str, object] = {
        "leaderId": NOBODY,
        "leaderEpoch": state.term,
        "votedId": state.voted_for,
        "votedDirectoryId": encode_topic_id(state.voted_directory),
        "data_version": _VERSION,
    }
    return json.dumps({**fields, "checksum": _checksum(fields)}, separators=(",", ":")).encode()


def decode_quorum_state(content: bytes) -> HardState:
    try:
        fields = json.loads(content)
        checksum = fields.pop("checksum", None)
        if fields["data_version"] > _VERSION:
            raise DamagedQuorumState(f"its version is {fields['data_version']}")
        if checksum is not None and checksum != _checksum(fields):
            raise DamagedQuorumState("its checksum is wrong")
        term, voted_for = int(fields["leaderEpoch"]), int(fields["votedId"])
        directory = decode_topic_id(fields.get("votedDirectoryId") or encode_topic_id(ANY_DIRECTORY))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedQuorumState(f"it is not what this node writes ({error})") from None
    if not 0 <= term <= TERM_MAX or voted_for < NOBODY:
        raise DamagedQuorumState(f"it tells of term {term} and a vote for {voted_for}")
    return HardState(term, voted_for, directory)


def _checksum(fields: Mapping[str, object]) -> int:
    return crc32c(json.dumps(fields, separators=(",", ":"), sort_keys=True).encode())

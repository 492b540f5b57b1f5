"""What a quorum is made with."""

from __future__ import annotations

from tidelog.model.limits import RAFT_APPEND_BYTES_MAX
from tidelog.model.value import Value
from tidelog.raft.core.members import NO_MEMBERS, MemberSet


class QuorumSettings(Value, kw_only=True):
    """Times are of this node's monotonic clock."""

    node_id: int
    directory_id: bytes
    """Of this node's data directory (16 bytes): what tells it from another node of the same id."""
    cluster_id: str
    bootstrap: MemberSet = NO_MEMBERS
    """The first members, used only when there is neither a log nor a snapshot: this node alone for a cluster of one,
    all of `controller.quorum.voters` on each of them, none for a node that waits to be taken in (`--join`)."""
    election_timeout_ms: int = 1000
    """How long a follower waits for its leader before it asks for votes: this long up to twice as long, by chance."""
    heartbeat_interval_ms: int = 200
    """How often a leader is heard; at least five times per election timeout."""
    append_bytes_max: int = RAFT_APPEND_BYTES_MAX
    """How much of the log one message carries."""
    segment_bytes: int = 1024 * 1024 * 1024
    snapshot_after_bytes: int = 20 * 1024 * 1024
    """Bytes of log behind the last snapshot that make the next one worth while."""
    snapshot_interval_ms: int = 3_600_000
    """A snapshot is taken that often if there is anything new; 0 for never."""

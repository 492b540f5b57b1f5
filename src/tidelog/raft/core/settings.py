"""The numbers a machine is made with."""

from __future__ import annotations

from tidelog.model.limits import (
    RAFT_APPEND_BYTES_MAX,
    RAFT_IN_FLIGHT_BYTES_MAX,
    RAFT_IN_FLIGHT_REQUESTS_MAX,
    RAFT_UNCOMMITTED_BYTES_MAX,
)
from tidelog.model.value import Value

NOBODY = -1
NEVER_MS = 2**62
LONG_AGO_MS = -(2**62)


class MachineSettings(Value, kw_only=True):
    node_id: int
    directory_id: bytes
    election_timeout_ms: int
    """A follower waits this long up to twice as long; a leader that heard from no majority for this long gives up."""
    heartbeat_interval_ms: int
    request_timeout_ms: int
    """After this long without a response a request counts as lost."""
    append_bytes_max: int = RAFT_APPEND_BYTES_MAX
    in_flight_requests_max: int = RAFT_IN_FLIGHT_REQUESTS_MAX
    in_flight_bytes_max: int = RAFT_IN_FLIGHT_BYTES_MAX
    uncommitted_bytes_max: int = RAFT_UNCOMMITTED_BYTES_MAX

"""Everything that a node takes from outside of itself, in one value: the machine that it runs on, and the network.

A node that is given nothing runs on this machine. A simulator gives its own, and puts nothing else in place of what a
node calls.
"""

from __future__ import annotations

from tidelog.model.limits import RAFT_APPEND_BYTES_MAX
from tidelog.model.value import Value
from tidelog.net.network import NETWORK, Network
from tidelog.runtime.system import SYSTEM, System


class Environment(Value):
    system: System = SYSTEM
    network: Network = NETWORK
    metadata_append_bytes_max: int = RAFT_APPEND_BYTES_MAX
    """How much of the metadata log one message between nodes carries."""


ENVIRONMENT = Environment()
"""The machine that this process runs on."""

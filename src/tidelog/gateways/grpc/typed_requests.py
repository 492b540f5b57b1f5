"""The requests and responses of often called APIs, which handlers take instead of the generated message classes."""

from tidelog.api.messages import OffsetCommit
from tidelog.groups.core.messages import Heartbeat, Join, Joined, Sync, Synced
from tidelog.partitions.producing import ProduceRequest, ProduceResponse

__all__ = ["Heartbeat", "Join", "Joined", "OffsetCommit", "ProduceRequest", "ProduceResponse", "Sync", "Synced"]

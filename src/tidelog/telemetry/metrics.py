"""What a node counts: plain numbers in slotted objects, incremented in place by the code that knows.

Rules: an increment is one attribute access and one addition, never a lookup by label or a lock; everything belongs to
the node's event loop (threads hand their figures back to it); names, labels and text formats exist only in
`exposition`, which runs at a scrape. Keep an `ApiMetrics` or `TopicMetrics` where it is used instead of
looking it up per request.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

DURATION_BOUNDS_SECONDS: Final[tuple[float, ...]] = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
)
"""Upper bounds, inclusive as in Prometheus; one more bucket holds what is slower than the last."""

_FASTEST_SECONDS: Final = 0.0001
assert DURATION_BOUNDS_SECONDS[0] == _FASTEST_SECONDS

CLOSE_REASONS: tuple[str, ...] = (
    "peer",
    "idle",
    "malformed",
    "oversized",
    "limit",
    "slow",
    "refused",
    "error",
    "starting",
    "shutdown",
)
"""Why a connection ended; a closed set, because every value is a label."""


class DurationHistogram:
    """Counts of durations in fixed buckets, with their sum."""

    __slots__ = ("buckets", "sum_seconds")

    def __init__(self) -> None:
        self.buckets: list[int] = [0] * (len(DURATION_BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        # Most are the fastest: they need no search.
        at = 0 if seconds <= _FASTEST_SECONDS else bisect_left(DURATION_BOUNDS_SECONDS, seconds)
        self.buckets[at] += 1
        self.sum_seconds += seconds

    @property
    def count(self) -> int:
        return sum(self.buckets)


class ApiMetrics:
    """One API key: how often it was called, how long it took until the response was handed to the socket."""

    __slots__ = ("duration", "errors", "key", "name")

    def __init__(self, key: int, name: str) -> None:
        self.key = key
        self.name = name
        self.duration = DurationHistogram()
        self.errors: dict[int, int] = {}
        """Error code -> how many responses, or partitions of a response, carried it."""

    @property
    def requests(self) -> int:
        return self.duration.count

    def count_error(self, code: int) -> None:
        """Call with any code but NONE, once per place of the response that carries it."""
        self.errors[code] = self.errors.get(code, 0) + 1


class TopicMetrics:
    """One topic, over all its partitions on this node."""

    __slots__ = ("batches_in", "bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.records_in = 0
        self.batches_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        """Bytes of record data handed to fetches, consumers and followers alike."""


class PartitionSample(NamedTuple):
    """One partition at the moment of a scrape."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int
    segments: int
    is_leader: bool = True
    replicas: int = 1
    in_sync_replicas: int = 1
    """Known to the leader only."""
    has_enough_in_sync: bool = True
    """Whether the leader takes acks=all: `min.insync.replicas` replicas are in sync."""


class GroupSample(NamedTuple):
    """One consumer group at the moment of a scrape."""

    group: str
    state: str
    generation: int
    members: int
    rebalances: int
    """Since this node coordinates the group."""


class LagSample(NamedTuple):
    """How far a group has come in one partition, at the moment of a scrape."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    lag: int


class NodeSample(NamedTuple):
    """What the parts of a node know anyway, at the moment of a scrape."""

    in_flight_bytes: int = 0
    """Requests read but not yet answered."""
    fetch_sessions: int = 0
    """Incremental fetch sessions in the cache."""
    offline_partitions: int = 0
    """Partitions that cannot be served because their disk failed or their log is damaged."""
    is_controller: bool = False
    """Whether this node decides for the cluster."""
    has_controller: bool = False
    """Whether this node knows a controller: without one the quorum is lost, or this node is cut off."""
    nodes_alive: int = 0
    nodes_fenced: int = 0
    """Registered, and silent for longer than `broker.session.timeout.ms`, or without room."""
    partitions_without_leader: int = 0
    """In the whole cluster, as this node knows it."""
    oldest_transaction_seconds: float = 0.0
    """How long the oldest of the transactions is open that this node coordinates; 0 without one."""
    disk_free_bytes: int | None = None
    disk_size_bytes: int | None = None
    """Of the file system of the data directory; None when it cannot be asked."""


class NodeMetrics:
    """All figures of one node. The fields are public: the code that does what is counted adds to them."""

    __slots__ = (
        "apis",
        "bytes_in",
        "bytes_out",
        "compactions",
        "compactions_seconds",
        "connections_closed",
        "connections_current",
        "connections_total",
        "fsync",
        "loop_delay",
        "reads_paused",
        "sample_groups",
        "sample_lag",
        "sample_node",
        "sample_partitions",
        "sample_transactions",
        "segments_deleted",
        "started_monotonic",
        "topics",
        "waiting_fetches",
        "waiting_produces",
    )

    def __init__(self) -> None:
        self.started_monotonic = time.monotonic()

        self.apis: dict[int, ApiMetrics] = {}
        """By API key; see `api`."""
        self.topics: dict[str, TopicMetrics] = {}
        """By topic name; see `topic` and `forget_topic`."""

        self.bytes_in = 0
        """Read from client sockets, frames and their sizes."""
        self.bytes_out = 0
        """Handed to client sockets."""

        self.connections_current = 0
        self.connections_total = 0
        self.connections_closed: dict[str, int] = dict.fromkeys(CLOSE_REASONS, 0)
        """Reason -> count; the reasons are CLOSE_REASONS and no others."""
        self.reads_paused = 0
        """How often a socket was left unread: too much was in flight, its peer did not read, or it was muted."""

        self.waiting_fetches = 0
        """Gauge: fetches that wait for data or their deadline."""
        self.waiting_produces = 0
        """Gauge: produces with acks=all that wait for their flush or their replicas."""

        self.fsync = DurationHistogram()
        """Every fsync of a log segment."""
        self.loop_delay = DurationHistogram()
        """How late the event loop came to a timer; looked at only with an admin port."""
        self.segments_deleted = 0
        """By retention and delete-records."""
        self.compactions = 0
        self.compactions_seconds = 0.0

        self.sample_node: Callable[[], NodeSample] = NodeSample
        self.sample_partitions: Callable[[], Iterable[PartitionSample]] = tuple
        """Called in the loop at every scrape, as the other samples are; see `sample_by`."""

        self.sample_groups: Callable[[], Iterable[GroupSample]] = tuple
        self.sample_lag: Callable[[], Iterable[LagSample]] = tuple
        self.sample_transactions: Callable[[], dict[str, int]] = dict
        """State -> transactional ids in it."""

    def sample_by(
        self,
        *,
        node: Callable[[], NodeSample],
        partitions: Callable[[], Iterable[PartitionSample]],
        groups: Callable[[], Iterable[GroupSample]],
        lag: Callable[[], Iterable[LagSample]],
        transactions: Callable[[], dict[str, int]],
    ) -> None:
        """What is looked up at each scrape, rather than counted all the time."""
        self.sample_node = node
        self.sample_partitions = partitions
        self.sample_groups = groups
        self.sample_lag = lag
        self.sample_transactions = transactions

    def api(self, key: int, name: str) -> ApiMetrics:
        """The figures of one API, made when first asked for."""
        found = self.apis.get(key)
        if found is None:
            found = self.apis[key] = ApiMetrics(key, name)
        return found

    def topic(self, name: str) -> TopicMetrics:
        """The figures of one topic. Call it for topics that exist only, or a client could grow the table at will."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicMetrics()
        return found

    def forget_topic(self, name: str) -> None:
        """After a topic is deleted."""
        self.topics.pop(name, None)

    def count_received(self, byte_count: int) -> None:
        """Bytes that were read from a client's socket."""
        self.bytes_in += byte_count

    def count_sent(self, byte_count: int) -> None:
        """Bytes that are on their way to a client's socket."""
        self.bytes_out += byte_count

    def count_pause(self) -> None:
        """A client's socket is left unread for a while."""
        self.reads_paused += 1

    def count_opened(self) -> None:
        self.connections_total += 1
        self.connections_current += 1

    def count_closed(self, reason: str) -> None:
        """A connection ended; also lowers the gauge of open connections."""
        self.connections_current -= 1
        self.connections_closed[reason if reason in self.connections_closed else "error"] += 1

    @property
    def uptime_seconds(self) -> float:
        return time.monotonic() - self.started_monotonic

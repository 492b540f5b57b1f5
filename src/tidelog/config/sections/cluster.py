"""Sections `cluster` and `replication`: the nodes of a cluster and how they copy from one another."""

from __future__ import annotations

from tidelog.config.setting import (
    INT64_MAX,
    Settings,
    boolean,
    int16,
    int32,
    int64,
    optional_text,
    text,
    word_list,
)


class ClusterSection(Settings, section="cluster"):
    cluster_id: str | None = optional_text(
        doc="The id of the cluster (22 characters of URL-safe base64); made up when a data directory is first used.",
    )
    process_roles: tuple[str, ...] = word_list(
        default=("broker", "controller"),
        choices=("broker", "controller"),
        doc="What this node does; a node of one has both roles.",
    )
    controller_listener_names: tuple[str, ...] = word_list(
        default=("CONTROLLER",),
        doc="Listeners for the metadata quorum only; never advertised to clients.",
    )
    controller_quorum_voters: tuple[str, ...] = word_list(
        default=(), doc="The voters of the metadata quorum as id@host:port; this node alone when empty."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = word_list(
        default=(), doc="Nodes that know the voters of the quorum, as host:port."
    )
    controller_quorum_election_timeout_ms: int = int32(
        default=1000, minimum=1, doc="How long a voter waits for votes before it tries again."
    )
    controller_quorum_election_backoff_max_ms: int = int32(
        default=1000, minimum=1, doc="The longest pause between two elections; the pause is random."
    )
    controller_quorum_fetch_timeout_ms: int = int32(
        default=2000, minimum=1, doc="How long the quorum's leader may be silent before another is elected."
    )
    controller_quorum_request_timeout_ms: int = int32(
        default=2000, minimum=1, doc="How long a request within the quorum may take."
    )
    controller_quorum_append_linger_ms: int = int32(
        default=25, minimum=0, doc="How long the quorum's leader collects records before it writes them."
    )
    tidelog_quorum_voters_max: int = int32(
        default=3, minimum=1, doc="How many nodes vote in the metadata quorum at most; nodes that join fill it up."
    )
    broker_heartbeat_interval_ms: int = int32(
        default=500, minimum=1, doc="How often a node tells the controller that it lives."
    )
    broker_session_timeout_ms: int = int32(
        default=2000, minimum=1, doc="How long a silent node keeps its partitions before it is fenced."
    )
    controlled_shutdown_enable: bool = boolean(
        default=True, doc="Whether a node that stops hands over its partitions first."
    )


class ReplicationSection(Settings, section="replication"):
    tidelog_replica_placement: str = text(
        default="round-robin",
        choices=("round-robin", "least-loaded"),
        doc="Where replicas of new partitions go: to all nodes in turn, or to those that hold the fewest.",
    )
    default_replication_factor: int = int32(
        default=1, minimum=1, doc="Replicas of a topic that is created without saying how many."
    )
    min_insync_replicas: int = int32(
        default=1, minimum=1, dynamic=True, doc="Default of the topic setting of this name."
    )
    unclean_leader_election_enable: bool = boolean(
        default=False, dynamic=True, doc="Default of the topic setting of this name."
    )
    auto_leader_rebalance_enable: bool = boolean(
        default=True, doc="Whether leadership goes back to the preferred replica by itself."
    )
    leader_imbalance_check_interval_seconds: int = int64(
        default=300, minimum=1, doc="How often leadership is checked for balance."
    )
    num_replica_fetchers: int = int32(default=1, minimum=1, doc="Connections a follower fetches from one leader with.")
    replica_lag_time_max_ms: int = int64(
        default=30_000, minimum=1, doc="How long a follower may lag before it leaves the in-sync set."
    )
    replica_fetch_max_bytes: int = int32(
        default=1_048_576, minimum=0, doc="Bytes a follower asks for per partition; one batch always fits."
    )
    replica_fetch_response_max_bytes: int = int32(
        default=10_485_760, minimum=0, doc="Bytes a follower asks for in one fetch."
    )
    replica_fetch_min_bytes: int = int32(default=1, minimum=0, doc="Bytes the leader waits for before it answers.")
    replica_fetch_wait_max_ms: int = int32(default=500, minimum=0, doc="How long the leader waits for them.")
    replica_fetch_backoff_ms: int = int32(
        default=1000, minimum=0, doc="How long a follower rests after a failed fetch."
    )
    replica_socket_timeout_ms: int = int32(default=30_000, minimum=1, doc="How long a follower waits for the network.")
    replica_socket_receive_buffer_bytes: int = int32(
        default=65_536, minimum=-1, doc="SO_RCVBUF of connections between nodes; -1 for the operating system's choice."
    )
    replica_high_watermark_checkpoint_interval_ms: int = int64(
        default=5000, minimum=1, doc="How often high watermarks are written to disk."
    )
    leader_replication_throttled_rate: int = int64(
        default=INT64_MAX,
        minimum=1,
        dynamic=True,
        doc="Bytes per second this node sends to replicas that topics name as throttled while they are not in sync.",
    )
    follower_replication_throttled_rate: int = int64(
        default=INT64_MAX,
        minimum=1,
        dynamic=True,
        doc="Bytes per second this node fetches for such replicas of its own.",
    )
    replica_selector_class: str | None = optional_text(
        doc="rack-aware (or Kafka's RackAwareReplicaSelector): consumers that name their rack are sent to a replica "
        "there; everyone reads from the leader when nothing is given."
    )
    offsets_topic_replication_factor: int = int16(
        default=3, minimum=1, doc="Replicas of the offsets topic; no more than there are nodes are used."
    )

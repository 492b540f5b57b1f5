"""Section `broker`: the node's identity, its listeners, limits per client, and transactions."""

from __future__ import annotations

from tidelog.config.setting import (
    INT32_MAX,
    Settings,
    boolean,
    int16,
    int32,
    int64,
    optional_text,
    optional_word_list,
    text,
    word_list,
)


class BrokerSection(Settings, section="broker"):
    node_id: int = int32(
        default=1,
        minimum=0,
        doc="The number of this node in its cluster; a data directory belongs to one number for good.",
    )
    broker_rack: str | None = optional_text(
        doc="Where the node stands (rack, zone); clients that know theirs may read from a replica nearby."
    )
    listeners: tuple[str, ...] = word_list(
        default=("PLAINTEXT://127.0.0.1:9092",),
        doc="Addresses the node binds, as NAME://host:port or host:port. An empty host is every interface, port 0 "
        "any free port.",
    )
    advertised_listeners: tuple[str, ...] | None = optional_word_list(
        doc="Addresses that clients connect to, one for each listener name; what is bound when nothing is given.",
    )
    listener_security_protocol_map: tuple[str, ...] = word_list(
        default=("PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"),
        doc="Which security protocol each listener name speaks; a name that is not listed must be a protocol itself.",
    )
    inter_broker_listener_name: str | None = optional_text(
        doc="The listener other nodes use; the first one when nothing is given."
    )
    admin_listen: str | None = optional_text(
        doc="host:port of the admin endpoint (metrics, health, readiness); no endpoint when nothing is given."
    )
    auto_create_topics_enable: bool = boolean(
        default=True, doc="Whether a client that names an unknown topic creates it."
    )
    delete_topic_enable: bool = boolean(default=True, doc="Whether topics can be deleted.")
    num_partitions: int = int32(
        default=1, minimum=1, doc="Partitions of a topic that is created without saying how many."
    )
    max_request_partition_size_limit: int = int32(
        default=2000, minimum=1, doc="The most partitions one DescribeTopicPartitions response carries."
    )
    socket_request_max_bytes: int = int32(
        default=104_857_600,
        minimum=1024,
        doc="The largest request a client may announce; a larger one closes its connection.",
    )
    socket_send_buffer_bytes: int = int32(
        default=-1,
        minimum=-1,
        doc="SO_SNDBUF of client connections; -1 for the operating system's choice, which grows as it is needed.",
    )
    socket_receive_buffer_bytes: int = int32(
        default=-1,
        minimum=-1,
        doc="SO_RCVBUF of client connections; -1 for the operating system's choice, which grows as it is needed.",
    )
    socket_listen_backlog_size: int = int32(
        default=1024, minimum=1, doc="Connections the operating system holds until the node accepts them."
    )
    connections_max_idle_ms: int = int64(
        default=600_000, minimum=-1, doc="How long a connection may be silent before it is closed; -1 for ever."
    )
    max_connections: int = int32(
        default=INT32_MAX,
        minimum=0,
        doc="Connections the node holds over all listeners; further ones are closed, unless they come to a listener "
        "that only other nodes use.",
    )
    max_connections_per_ip: int = int32(
        default=INT32_MAX, minimum=0, doc="Connections one address may hold; further ones are closed."
    )
    queued_max_request_bytes: int = int64(
        default=-1,
        minimum=-1,
        doc="Bytes of requests read but not answered, over all connections, beyond which sockets are not read; -1 for "
        "the built-in bound. Not less than `socket.request.max.bytes`.",
    )
    queued_max_requests: int = int32(
        default=500, minimum=1, doc="Requests of one connection that may be in progress before its socket is not read."
    )
    fetch_max_bytes: int = int32(
        default=57_671_680, minimum=1024, doc="The most bytes one fetch response carries, whatever the client asks for."
    )
    max_incremental_fetch_session_cache_slots: int = int32(
        default=1000, minimum=0, doc="Incremental fetch sessions kept; further clients send whole fetches."
    )
    request_timeout_ms: int = int32(
        default=30_000, minimum=1, doc="How long this node waits for an answer of another node."
    )
    num_network_threads: int = int32(
        default=3, minimum=1, doc="Taken so that a Kafka configuration can be used; one event loop does this work."
    )
    num_io_threads: int = int32(
        default=8, minimum=1, doc="Taken so that a Kafka configuration can be used; one event loop does this work."
    )
    background_threads: int = int32(
        default=10, minimum=1, doc="The most threads for work off the event loop (fsync, compaction, recovery)."
    )
    tidelog_loop: str = text(
        default="auto",
        choices=("auto", "uvloop", "asyncio"),
        doc="The event loop: uvloop where it is installed (`auto`), or one of the two by name.",
    )
    transaction_max_timeout_ms: int = int32(
        default=900_000, minimum=1, doc="The longest timeout a transactional producer may ask for."
    )
    transactional_id_expiration_ms: int = int32(
        default=604_800_000, minimum=1, doc="How long an unused transactional id is remembered."
    )
    transaction_state_log_num_partitions: int = int32(
        default=50, minimum=1, doc="Partitions of the transaction state topic; fixed once the topic exists."
    )
    transaction_state_log_replication_factor: int = int16(
        default=3, minimum=1, doc="Replicas of the transaction state topic; no more than there are nodes are used."
    )
    transaction_state_log_min_isr: int = int32(
        default=2, minimum=1, doc="In-sync replicas the transaction state topic asks for, at most its replicas."
    )
    transaction_state_log_segment_bytes: int = int32(
        default=104_857_600, minimum=1, doc="Segment size of the transaction state topic."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = int32(
        default=10_000, minimum=1, doc="How often transactions that timed out are looked for."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = int32(
        default=3_600_000, minimum=1, doc="How often expired transactional ids are looked for."
    )
    transaction_partition_verification_enable: bool = boolean(
        default=True, doc="Whether a transactional write is checked against the coordinator before it is taken."
    )

"""Every API this node serves: key, versions, handler, permission. One line per API.

The dispatcher, the ApiVersions response and docs/protocol.md are all derived from this table. A handler is a module
of `tidelog.api.handlers`; it is imported when its first request arrives, so that a node starts without paying for
APIs that are not called.
"""

from typing import Final, NamedTuple

from tidelog.model.access import ANYBODY, Operation, Permission, ResourceType
from tidelog.model.limits import BOUND_BY_FRAME, LOOKUP_BYTES_MAX, REQUEST_BYTES_MAX
from tidelog.protocol.private_apis import JOIN_API_KEY, RAFT_API_KEY, STATISTICS_API_KEY


class Api(NamedTuple):
    key: int
    min_version: int
    max_version: int
    handler: str
    """The module below `tidelog.api.handlers`, which is also the name of the generated message module."""
    permission: Permission
    """What a caller must be allowed to do."""
    codec: str | None = None
    """The module below `tidelog.api.codecs`. None: the handler takes and returns the generated message classes."""
    advertised_min_version: int | None = None
    """What ApiVersions advertises instead of `min_version`, where the truth would mislead clients."""
    partial: str = ""
    """What is not there yet, in words for docs/protocol.md; empty when the API is complete."""
    forwarded: bool = False
    """Answered by the active controller alone: any other node sends the request on."""
    between_nodes: bool = False
    """Served to other nodes; ApiVersions does not list it for clients."""
    overlaps_from: int | None = None
    """The first version of which the next request of the connection may start before this one is answered."""
    bytes_max: int = REQUEST_BYTES_MAX
    """A larger request closes the connection, undecoded."""


ALTER_CLUSTER: Final = Permission(Operation.ALTER, ResourceType.CLUSTER)
ALTER_TOPIC: Final = Permission(Operation.ALTER, ResourceType.TOPIC)
ALTER_CONFIGS_TOPIC: Final = Permission(Operation.ALTER_CONFIGS, ResourceType.TOPIC)
CLUSTER_ACTION_CLUSTER: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
CLUSTER_ACTION_OR_ALTER_CLUSTER: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, Operation.ALTER)
CREATE_TOPIC: Final = Permission(Operation.CREATE, ResourceType.TOPIC)
DELETE_GROUP: Final = Permission(Operation.DELETE, ResourceType.GROUP)
DELETE_TOPIC: Final = Permission(Operation.DELETE, ResourceType.TOPIC)
DESCRIBE_CLUSTER: Final = Permission(Operation.DESCRIBE, ResourceType.CLUSTER)
DESCRIBE_GROUP: Final = Permission(Operation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_TOPIC: Final = Permission(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_CONFIGS_CLUSTER: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
DESCRIBE_CONFIGS_TOPIC: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
READ_GROUP: Final = Permission(Operation.READ, ResourceType.GROUP)
READ_TOPIC: Final = Permission(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Permission(Operation.WRITE, ResourceType.TOPIC)
WRITE_TRANSACTIONAL_ID: Final = Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)

APIS: tuple[Api, ...] = (
    # librdkafka before 2.8 takes a node that does not name versions 0 to 2 for one without compression (KAFKA-18659).
    Api(0, 3, 13, "produce", WRITE_TOPIC, codec="produce", advertised_min_version=0, bytes_max=BOUND_BY_FRAME),
    Api(1, 4, 18, "fetch", READ_TOPIC, codec="fetch"),
    Api(2, 1, 11, "list_offsets", DESCRIBE_TOPIC),
    Api(3, 0, 13, "metadata", DESCRIBE_TOPIC),
    Api(8, 2, 10, "offset_commit", READ_GROUP, codec="offset_commit"),
    Api(9, 1, 10, "offset_fetch", DESCRIBE_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(
        10,
        0,
        6,
        "find_coordinator",
        DESCRIBE_GROUP,
        partial="groups and transactions: there is no share coordinator",
        bytes_max=LOOKUP_BYTES_MAX,
    ),
    Api(11, 0, 9, "join_group", READ_GROUP, codec="join_group"),
    Api(12, 0, 4, "heartbeat", READ_GROUP, codec="heartbeat"),
    Api(13, 0, 5, "leave_group", READ_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(14, 0, 5, "sync_group", READ_GROUP, codec="sync_group"),
    Api(15, 0, 6, "describe_groups", DESCRIBE_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(16, 0, 5, "list_groups", DESCRIBE_GROUP),
    Api(18, 0, 4, "api_versions", ANYBODY, codec="api_versions"),
    Api(19, 2, 7, "create_topics", CREATE_TOPIC, forwarded=True),
    Api(20, 1, 6, "delete_topics", DELETE_TOPIC, forwarded=True),
    Api(21, 0, 2, "delete_records", DELETE_TOPIC, bytes_max=LOOKUP_BYTES_MAX),
    Api(22, 0, 5, "init_producer_id", WRITE_TRANSACTIONAL_ID),
    Api(23, 2, 4, "offset_for_leader_epoch", DESCRIBE_TOPIC, bytes_max=LOOKUP_BYTES_MAX),
    # From version 4 on nodes ask each other, for all producers over one connection.
    Api(24, 0, 5, "add_partitions_to_txn", WRITE_TRANSACTIONAL_ID, overlaps_from=4),
    Api(25, 0, 4, "add_offsets_to_txn", WRITE_TRANSACTIONAL_ID),
    Api(26, 0, 5, "end_txn", WRITE_TRANSACTIONAL_ID),
    # Operators end transactions that hang with it.
    Api(27, 1, 2, "write_txn_markers", CLUSTER_ACTION_OR_ALTER_CLUSTER, overlaps_from=0),
    Api(28, 0, 5, "txn_offset_commit", WRITE_TRANSACTIONAL_ID),
    Api(
        32,
        1,
        4,
        "describe_configs",
        DESCRIBE_CONFIGS_TOPIC,
        partial="no client metrics; of groups the settings of the consumer protocol",
        bytes_max=LOOKUP_BYTES_MAX,
    ),
    Api(33, 0, 2, "alter_configs", ALTER_CONFIGS_TOPIC, forwarded=True, partial="as DescribeConfigs"),
    Api(
        34,
        1,
        2,
        "alter_replica_log_dirs",
        ALTER_CLUSTER,
        partial="a node has one log directory, so every move is refused",
    ),
    Api(35, 1, 5, "describe_log_dirs", DESCRIBE_CLUSTER, bytes_max=LOOKUP_BYTES_MAX),
    Api(37, 0, 3, "create_partitions", ALTER_TOPIC, forwarded=True),
    Api(42, 0, 2, "delete_groups", DELETE_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(43, 0, 2, "elect_leaders", ALTER_CLUSTER, forwarded=True),
    Api(44, 0, 1, "incremental_alter_configs", ALTER_CONFIGS_TOPIC, partial="as DescribeConfigs"),
    Api(45, 0, 1, "alter_partition_reassignments", ALTER_CLUSTER, forwarded=True),
    Api(46, 0, 0, "list_partition_reassignments", DESCRIBE_CLUSTER, bytes_max=LOOKUP_BYTES_MAX),
    Api(47, 0, 0, "offset_delete", DELETE_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(55, 0, 2, "describe_quorum", DESCRIBE_CLUSTER, forwarded=True),
    Api(56, 2, 3, "alter_partition", CLUSTER_ACTION_CLUSTER, between_nodes=True),
    Api(57, 0, 2, "update_features", ALTER_CLUSTER, forwarded=True),
    Api(58, 0, 0, "envelope", CLUSTER_ACTION_CLUSTER, between_nodes=True, overlaps_from=0),
    Api(60, 0, 2, "describe_cluster", ANYBODY),
    Api(61, 0, 0, "describe_producers", READ_TOPIC, bytes_max=LOOKUP_BYTES_MAX),
    Api(62, 0, 4, "broker_registration", CLUSTER_ACTION_CLUSTER, between_nodes=True),
    Api(63, 0, 2, "broker_heartbeat", CLUSTER_ACTION_CLUSTER, between_nodes=True),
    Api(64, 0, 0, "unregister_broker", ALTER_CLUSTER, forwarded=True),
    Api(65, 0, 0, "describe_transactions", DESCRIBE_TRANSACTIONAL_ID, bytes_max=LOOKUP_BYTES_MAX),
    Api(66, 0, 2, "list_transactions", DESCRIBE_TRANSACTIONAL_ID),
    Api(67, 0, 0, "allocate_producer_ids", CLUSTER_ACTION_CLUSTER, between_nodes=True),
    Api(68, 0, 1, "consumer_group_heartbeat", READ_GROUP, codec="consumer_group_heartbeat"),
    Api(69, 0, 1, "consumer_group_describe", DESCRIBE_GROUP, bytes_max=LOOKUP_BYTES_MAX),
    Api(74, 0, 1, "list_config_resources", DESCRIBE_CONFIGS_CLUSTER),
    Api(75, 0, 0, "describe_topic_partitions", DESCRIBE_TOPIC, bytes_max=LOOKUP_BYTES_MAX),
    Api(80, 0, 1, "add_raft_voter", ALTER_CLUSTER, forwarded=True),
    Api(81, 0, 0, "remove_raft_voter", ALTER_CLUSTER, forwarded=True),
    Api(
        RAFT_API_KEY,
        0,
        0,
        "raft",
        CLUSTER_ACTION_CLUSTER,
        codec="opaque",
        between_nodes=True,
        overlaps_from=0,
        bytes_max=BOUND_BY_FRAME,
    ),
    Api(JOIN_API_KEY, 0, 0, "node_join", CLUSTER_ACTION_CLUSTER, codec="json", between_nodes=True),
    Api(STATISTICS_API_KEY, 0, 0, "node_statistics", DESCRIBE_CLUSTER, codec="json", between_nodes=True),
)

BY_KEY: dict[int, Api] = {api.key: api for api in APIS}

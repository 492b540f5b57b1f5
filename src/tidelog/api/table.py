"""Every API this node serves: key, versions, handler. One line per API.

The dispatcher, the ApiVersions response and docs/protocol.md are all derived from this table. A handler is a module
of `tidelog.api.handlers`; it is imported when its first request arrives, so that a node starts without paying for
APIs nobody calls.
"""

from typing import NamedTuple

from tidelog.model.limits import BOUND_BY_FRAME, QUESTION_BYTES_MAX, REQUEST_BYTES_MAX
from tidelog.protocol.private_apis import JOIN_API_KEY, RAFT_API_KEY, STATISTICS_API_KEY


class Api(NamedTuple):
    key: int
    min_version: int
    max_version: int
    handler: str
    """The module below `tidelog.api.handlers`, which is also the name of the generated message module."""
    told_min_version: int | None = None
    """What clients are told instead of `min_version`, where telling the truth would mislead them."""
    partial: str = ""
    """What is not there yet, in words for docs/protocol.md; empty when the API is complete."""
    forwarded: bool = False
    """Answered by the active controller alone: a node that is not sends the request on."""
    between_nodes: bool = False
    """Served to other nodes; clients are not told of it."""
    overlaps_from: int | None = None
    """The first version of which the next request of the connection may start before this one is answered."""
    bytes_max: int = REQUEST_BYTES_MAX
    """A larger request closes the connection, undecoded."""


APIS: tuple[Api, ...] = (
    # librdkafka before 2.8 takes a node that does not name versions 0 to 2 for one without compression (KAFKA-18659).
    Api(0, 3, 13, "produce", told_min_version=0, bytes_max=BOUND_BY_FRAME),
    Api(1, 4, 18, "fetch"),
    Api(2, 1, 11, "list_offsets"),
    Api(3, 0, 13, "metadata"),
    Api(8, 2, 10, "offset_commit"),
    Api(9, 1, 10, "offset_fetch", bytes_max=QUESTION_BYTES_MAX),
    Api(
        10,
        0,
        6,
        "find_coordinator",
        partial="groups and transactions: there is no share coordinator",
        bytes_max=QUESTION_BYTES_MAX,
    ),
    Api(11, 0, 9, "join_group"),
    Api(12, 0, 4, "heartbeat"),
    Api(13, 0, 5, "leave_group", bytes_max=QUESTION_BYTES_MAX),
    Api(14, 0, 5, "sync_group"),
    Api(15, 0, 6, "describe_groups", bytes_max=QUESTION_BYTES_MAX),
    Api(16, 0, 5, "list_groups"),
    Api(18, 0, 4, "api_versions"),
    Api(19, 2, 7, "create_topics", forwarded=True),
    Api(20, 1, 6, "delete_topics", forwarded=True),
    Api(21, 0, 2, "delete_records", bytes_max=QUESTION_BYTES_MAX),
    Api(22, 0, 5, "init_producer_id"),
    Api(23, 2, 4, "offset_for_leader_epoch", bytes_max=QUESTION_BYTES_MAX),
    # From version 4 on nodes ask each other, for all producers over one connection.
    Api(24, 0, 5, "add_partitions_to_txn", overlaps_from=4),
    Api(25, 0, 4, "add_offsets_to_txn"),
    Api(26, 0, 5, "end_txn"),
    Api(27, 1, 2, "write_txn_markers", overlaps_from=0),
    Api(28, 0, 5, "txn_offset_commit"),
    Api(
        32,
        1,
        4,
        "describe_configs",
        partial="no client metrics; of groups the settings of the consumer protocol",
        bytes_max=QUESTION_BYTES_MAX,
    ),
    Api(33, 0, 2, "alter_configs", forwarded=True, partial="as DescribeConfigs"),
    Api(34, 1, 2, "alter_replica_log_dirs", partial="a node has one log directory, so every move is refused"),
    Api(35, 1, 5, "describe_log_dirs", bytes_max=QUESTION_BYTES_MAX),
    Api(37, 0, 3, "create_partitions", forwarded=True),
    Api(42, 0, 2, "delete_groups", bytes_max=QUESTION_BYTES_MAX),
    Api(43, 0, 2, "elect_leaders", forwarded=True),
    Api(44, 0, 1, "incremental_alter_configs", forwarded=True, partial="as DescribeConfigs"),
    Api(45, 0, 1, "alter_partition_reassignments", forwarded=True),
    Api(46, 0, 0, "list_partition_reassignments", bytes_max=QUESTION_BYTES_MAX),
    Api(47, 0, 0, "offset_delete", bytes_max=QUESTION_BYTES_MAX),
    Api(55, 0, 2, "describe_quorum", forwarded=True),
    Api(56, 2, 3, "alter_partition", between_nodes=True),
    Api(57, 0, 2, "update_features", forwarded=True),
    Api(58, 0, 0, "envelope", between_nodes=True, overlaps_from=0),
    Api(60, 0, 2, "describe_cluster"),
    Api(61, 0, 0, "describe_producers", bytes_max=QUESTION_BYTES_MAX),
    Api(62, 0, 4, "broker_registration", between_nodes=True),
    Api(63, 0, 2, "broker_heartbeat", between_nodes=True),
    Api(64, 0, 0, "unregister_broker", forwarded=True),
    Api(65, 0, 0, "describe_transactions", bytes_max=QUESTION_BYTES_MAX),
    Api(66, 0, 2, "list_transactions"),
    Api(67, 0, 0, "allocate_producer_ids", between_nodes=True),
    Api(68, 0, 1, "consumer_group_heartbeat"),
    Api(69, 0, 1, "consumer_group_describe", bytes_max=QUESTION_BYTES_MAX),
    Api(74, 0, 1, "list_config_resources"),
    Api(75, 0, 0, "describe_topic_partitions", bytes_max=QUESTION_BYTES_MAX),
    Api(80, 0, 1, "add_raft_voter", forwarded=True),
    Api(81, 0, 0, "remove_raft_voter", forwarded=True),
    Api(RAFT_API_KEY, 0, 0, "raft", between_nodes=True, overlaps_from=0, bytes_max=BOUND_BY_FRAME),
    Api(JOIN_API_KEY, 0, 0, "node_join", between_nodes=True),
    Api(STATISTICS_API_KEY, 0, 0, "node_statistics", between_nodes=True),
)

BY_KEY: dict[int, Api] = {api.key: api for api in APIS}

"""Every limit in one place, so that none is forgotten and each can be tested at its edge.

Limits that users may change are settings (see `tidelog.config`); these are the hard ones behind them.
"""

from typing import Final

FRAME_SIZE_BYTES: Final = 4
"""What stands before every frame."""

FRAME_BYTES_MIN: Final = 8
"""The smallest request: api key, api version, correlation id."""

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Default of `socket.request.max.bytes`; a larger announced size closes the connection unread."""

REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest request that is not a produce. Everything else is decoded into objects, which take many times the bytes
they came as; records stay bytes."""

LOOKUP_BYTES_MAX: Final = 1024 * 1024
"""The largest lookup request, and the largest one that changes things by their names: each name has a few bytes and
takes the loop some microseconds."""

BOUND_BY_FRAME: Final = 2**31 - 1
"""For what carries records: the listener has looked at its size (`socket.request.max.bytes`)."""

GROUP_CONFIGS_DESCRIBED_MAX: Final = 10_000
"""Groups whose settings one response describes: any name has some, and they take hundreds of times its bytes."""

KEYS_BETWEEN_PAUSES: Final = 200
"""How many of the things that a request names are looked at before others get their turn."""

CONNECTION_IN_FLIGHT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Requests read but not answered, per connection; beyond it the socket is not read (one frame always fits)."""

NODE_IN_FLIGHT_BYTES_MAX: Final = 512 * 1024 * 1024
"""The same over all connections of a node, more if that is less than one frame (`socket.request.max.bytes`)."""

CONNECTION_IN_FLIGHT_REQUESTS_MAX: Final = 256

REQUESTS_PER_TURN_MAX: Final = 64
"""Requests of one connection that are started before the loop looks at the others."""

REPLY_BYTES_PER_TURN_MAX: Final = 256 * 1024
"""The same in bytes of their replies; they are then sent, and nothing is started while the peer does not read. Also
what a connection may hold of replies behind one that is not there yet. One reply always fits."""

REPLIES_PER_BURST_MAX: Final = 32
"""Connections whose replies are kept back, within one turn of the loop, to be sent together."""

FRAME_PLACE_BYTES: Final = 1024 * 1024 + 64 * 1024
"""A batch of the default `max.message.bytes` and the request around it."""

FRAME_PLACES_MAX: Final = 4
"""Buffers of that size a listener keeps for large frames, beside what the budgets above count."""

CONNECTIONS_MAX: Final = 20_000

RESPONSE_BYTES_MIN: Final = 4
"""The smallest response a node reads from another: a correlation id."""

RPC_RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest response a node reads from another: a fetch of what may be there, and one batch of any size more."""

RPC_IN_FLIGHT_REQUESTS_MAX: Final = 1024
"""Requests to another node that wait for their answers, per connection; one more is refused."""

RPC_IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same in bytes; a single larger request still goes out when nothing else is under way."""

FETCH_SESSION_PARTITIONS_MAX: Final = 250_000
"""Partitions that all incremental fetch sessions of a node remember, about 400 bytes each; a consumer of more names all
its partitions in every fetch."""

TOPIC_NAME_LENGTH_MAX: Final = 249

RECORD_HEADERS_MAX: Final = 100_000
"""Headers one record may carry when records are parsed."""

DECOMPRESSED_BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most a compressed batch may grow to when it is opened."""

DISK_ROOM_BYTES_MIN: Final = 2 * 1024 * 1024
"""A node of a cluster with less free space gives its partitions to others: the next large batch would not fit."""

DISK_ROOM_BYTES_ENOUGH: Final = 8 * 1024 * 1024
"""With so much free space the node takes part again."""

RESERVED_ROOM_BYTES: Final = 512 * 1024
"""Kept free for what frees space, and for the start of a node whose disk is full."""

DECISION_BYTES_MAX: Final = 256 * 1024
"""About what a coordinator writes at once of what can wait: a quarter of the default `max.message.bytes`."""

DEADLINES_PER_DECISION_MAX: Final = 100
"""Of members of a group that are taken out at once."""

PATTERNS_PER_GROUP_MAX: Final = 64
"""Different patterns that the members of a group may subscribe to: each is matched with every topic that changes."""

CHANGED_TOPICS_MAX: Final = 1000
"""Changed topics that a group remembers until its next heartbeat; beyond that it looks at all there are."""

GROUPS_PER_DECISION_MAX: Final = 1000
"""Groups that are looked at for offsets to delete before others on the loop get their turn."""

TAGGED_FIELDS_MAX: Final = 1024
"""Tagged fields one structure may carry; more is a hostile peer."""

PRODUCER_BATCHES_RETAINED: Final = 5
"""Batches remembered per idempotent producer, as Kafka's clients keep at most five in flight."""

COMPACTION_KEYS_MAX: Final = 500_000
"""Keys one compaction pass remembers, about 150 bytes each; a dirtier log takes several passes."""

COMPACTION_KEY_BYTES_KEPT: Final = 15
"""Longer keys are remembered by a 16-byte hash."""

RAFT_ENTRY_BYTES_MAX = 6 * 1024 * 1024
"""The largest batch of one decision; it must fit a request between nodes (REQUEST_BYTES_MAX)."""

RAFT_APPEND_BYTES_MAX = 1024 * 1024
"""Entries one request carries (one entry always fits)."""

RAFT_IN_FLIGHT_REQUESTS_MAX = 16
RAFT_IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""What a leader sends to one member ahead of its responses."""

RAFT_UNCOMMITTED_BYTES_MAX = 32 * 1024 * 1024
"""Proposals that wait for a majority; more are refused."""

RAFT_SNAPSHOT_PART_BYTES = 1024 * 1024
RAFT_SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024
"""A larger snapshot is not taken from a leader."""

RAFT_MEMBERS_MAX = 1000
"""Members a configuration may name."""

GRPC_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest message that the gRPC door takes; what it sends ends near what was asked for."""

GRPC_CALLS_MAX: Final = 10_000
"""Calls of the gRPC door at one time, streams that wait included; one more is refused."""

GRPC_IN_FLIGHT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Large requests of gRPC clients that are being answered; one more is refused."""

GRPC_COUNTED_BYTES_MIN: Final = 64 * 1024
"""A request of so many bytes is large."""

GRPC_STREAMS_PER_CONNECTION_MAX: Final = 2_500

GRPC_CALLERS_REMEMBERED_MAX: Final = 1_000
"""Connections whose caller need not be made again for each call."""

GRPC_MEMBERS_HELD_MAX: Final = 10_000
"""Members of groups that the gRPC door speaks for."""

GRPC_UNREAD_RECORDS_MAX: Final = 1_000
"""Records that a subscription has read ahead of its client, unless the node is set otherwise."""

GRPC_READ_BYTES_DEFAULT: Final = 1024 * 1024
"""What one call reads when it does not say; clients take messages of 4 MiB by default."""

GRPC_READ_BYTES_MAX: Final = 6 * 1024 * 1024

GRPC_STREAM_BATCH_BYTES_MAX: Final = 256 * 1024
"""Records of a produce stream that are appended together."""

GRPC_STREAM_PENDING_BYTES_MAX: Final = 512 * 1024
"""Records of a produce stream that wait for those before them; then the stream is not read."""

HTTP_HEAD_BYTES_MAX: Final = 32 * 1024
"""Request line and headers of one HTTP request."""

HTTP_TARGET_BYTES_MAX: Final = 16 * 1024
"""The path with its query."""

HTTP_HEADERS_MAX: Final = 128

HTTP_QUERY_PARAMETERS_MAX: Final = 64

HTTP_PIPELINED_REQUESTS_MAX: Final = 16
"""Requests of one HTTP connection that wait for their turn; beyond it the socket is not read."""

HTTP_STREAMED_BODY_BYTES_MAX: Final = 256 * 1024
"""What is held of a body that a handler reads as it comes; beyond it the socket is not read."""

HTTP_JSON_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest JSON body: it is decoded into objects, which take many times the bytes they came as."""

HTTP_BATCH_RECORDS_MAX: Final = 100_000
"""Records that one request appends together."""

HTTP_SHARE_OF_BUDGET: Final = 0.25
"""How much of the bytes in flight the HTTP door may hold: the rest is there for the Kafka door, whatever comes here."""

HTTP_SMALL_BYTES: Final = 16 * 1024
"""What one connection may hold even when the budget is spent, so that small requests are answered all the while."""

GATEWAY_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most a compressed batch may grow to when a gateway opens it for its clients."""

HTTP_FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""About what one HTTP answer carries of records; one batch always fits."""

HTTP_SESSION_TOKENS_MAX: Final = 4
"""Tokens in one request, of a client that had as many requests under way: they fit the head of a request."""

HTTP_SESSION_TOKEN_BYTES_MAX: Final = 4000
"""The largest X-Tidelog-Session: clients and proxies take headers of 4 KB. Of partitions that have no room in it the
leaders are read."""

HTTP_PART_BYTES: Final = 128 * 1024
"""About how much of an answer's records is made at a time; the rest is read as the client takes it."""

HTTP_UNWANTED_BODY_BYTES_MAX: Final = 64 * 1024
"""A body of a request that takes none is read and dropped; the answer to a larger one ends the connection."""

CONSUMER_FETCH_BYTES: Final = 256 * 1024
"""About what a gateway reads at once for one consumer, of all its partitions together; one batch always fits."""

HTTP_CONSUMER_INSTANCES_MAX: Final = 1000
"""Consumers that a node holds for clients of its HTTP door: each is a member of a group, with its heartbeats."""

HTTP_CONSUMER_PARTITIONS_MAX: Final = 10_000
"""Partitions that one request of such a consumer may name."""

HTTP_V3_RECORDS_MAX: Final = 10_000
"""Records in one body of v3, each of which has its own answer."""

HTTP_STREAM_PART_BYTES: Final = 64 * 1024
"""About how much of a stream is written before its client must have taken it and others on the loop have their turn."""

HTTP_STREAM_PARTITIONS_MAX: Final = 1000
"""Partitions that one stream reads without a group: each stands in the id of every event."""

HTTP_LINE_BYTES_MAX: Final = 1536 * 1024
"""The longest line of an NDJSON body: a record of the default `max.message.bytes` in base64. A longer one is skipped
and answered with an error."""

HTTP_LINES_UNANSWERED_MAX: Final = 10_000
"""Lines of one NDJSON body that were read and whose answers the client has not taken."""

HTTP_LINES_UNWRITTEN_BYTES_MAX: Final = 1024 * 1024
"""Records of one NDJSON body that are not in the log yet; one more line always fits."""

GATEWAY_BATCH_BYTES: Final = 128 * 1024
"""About how large the batches are that a gateway makes of records that come one by one."""

KEY_BYTES_HASHED_AT_ONCE_MAX: Final = 64 * 1024
"""A longer key is hashed in a thread."""

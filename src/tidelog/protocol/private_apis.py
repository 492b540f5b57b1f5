"""API keys of requests between nodes. ApiVersions lists them for nodes and leaves them out for clients.

Far above Kafka's own, which count up from 0.
"""

PRIVATE_API_KEY_MIN = 30_000

RAFT_API_KEY = 30_000
"""One message of the metadata quorum; its body says which (`tidelog.raft.codec`)."""

JOIN_API_KEY = 30_001
"""A node asks to be taken into the cluster; JSON both ways (`tidelog.api.handlers.node_join`)."""

STATISTICS_API_KEY = 30_002
"""A node tells how it is doing and hears how the others do; JSON (`tidelog.api.handlers.node_statistics`)."""

NODE_SOFTWARE_NAME = "tidelog-node"
"""The client software name that a node gives in ApiVersions: it is answered with the APIs between nodes as well."""

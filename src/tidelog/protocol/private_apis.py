"""API keys of requests between nodes. No client is told of them: ApiVersions leaves them out.

Far above Kafka's own, which count up from 0.
"""

PRIVATE_API_KEY_MIN = 30_000

RAFT_API_KEY = 30_000
"""One message of the metadata quorum; its body says which (`tidelog.raft.codec`)."""

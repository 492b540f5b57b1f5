"""The partitions of this node: role, log and replication of each, fetch sessions, produces and fetches that wait.

Owned by the event loop. May use `storage`, `metadata`, `controller` and below; knows nothing of APIs. `core` decides,
`replication` is the shell of followers and leaders.
"""

"""The shell of replication: fetches of followers, proposals of leaders, and the clock that watches both.

May use `partitions.core`, `net` for calls to other nodes, and `storage`.
"""

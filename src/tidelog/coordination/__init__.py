"""Hosts decide/replay cores on partitions of internal topics: append, commit, replay, release of replies.

May use `partitions` and below. Knows nothing of groups or transactions: a core is handed in. A reply is released when
the records it rests on are committed.
"""

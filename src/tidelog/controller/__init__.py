"""The controller: decides changes of the metadata where this node leads the quorum, and is reached from every node.

`core` holds the pure decide functions; everything else is their asyncio shell. Knows the quorum (`raft`) and the
metadata, and nothing of partitions, groups or APIs.
"""

"""The metadata quorum: its leader, its members, what is committed.

`core` is the machine, everything else its shell: the log and snapshots on disk, messages to other members, and the
state that applies committed records. May use `metadata`, `storage` and below; does not know what the records mean.
"""

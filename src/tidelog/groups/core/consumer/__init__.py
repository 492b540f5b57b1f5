"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members learn of it by their heartbeats.

Pure, as all of `groups.core`.
"""

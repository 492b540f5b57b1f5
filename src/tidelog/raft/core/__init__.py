"""Raft as a machine without input or output: events in, effects out."""

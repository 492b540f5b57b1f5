"""Raft as a machine: events in, effects out, in the order in which the shell must carry them out.

Pure: no input or output, no clock, no chance. May use `model`.
"""

"""Connections in and out: listeners, frames, byte budgets, replies in order, and calls to other nodes.

May use `protocol` and `runtime` and below. Moves frames and does not know what they ask for; no files are opened here.
"""

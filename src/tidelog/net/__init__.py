"""Connections in and out: listeners, frames, byte budgets, replies in order, and the wire client (`client`).

May use `protocol` and `runtime` and below. Moves frames and does not know what they ask for; no files are opened here.
"""

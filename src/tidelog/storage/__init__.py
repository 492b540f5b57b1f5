"""Logs on disk: segments, indexes, recovery, retention, compaction, flush, and the layout of a data directory.

Synchronous: no asyncio, no sockets. May use `records`, `config`, `telemetry` and below. What was appended survives a
crash of the process; what was flushed survives a crash of the machine.
"""

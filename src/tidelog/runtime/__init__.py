"""What a process needs beside its work: its machine, garbage collection, background tasks, long work in portions.

May use `telemetry` and below. Knows nothing of Kafka's nouns.
"""

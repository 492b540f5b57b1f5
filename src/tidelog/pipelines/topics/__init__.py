"""Topics as frames and frames as topics: `topic_source`, `topic_sink`, and dead letters.

May ask a broker over the wire through `broker`, which translates client settings between the Java client and
librdkafka. `letter_writer` runs in Spark's Python workers. Knows nothing of tables and of pipeline files.
"""

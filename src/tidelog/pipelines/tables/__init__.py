"""Tables as frames and frames as tables: Parquet, Delta and Iceberg, each with an idempotent commit per batch.

`table_sink` is the way in; one file per format commits a batch once. May touch the table's own files. Knows nothing of
topics, brokers and pipeline files.
"""

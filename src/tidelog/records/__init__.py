"""Record batches of Kafka's format, version 2: header, records, control batches, building and validation.

Pure. May use `codec` and `model`; knows nothing of requests or files.
"""

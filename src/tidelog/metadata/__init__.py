"""The metadata of the cluster: Kafka's records, the image they fold into, and the delta between two images.

Pure: no I/O, no clock, no asyncio. Each subject (topics, brokers, configs, features, producer ids) is one module with
its sub-image and sub-delta; `table` lists them, `image` and `delta` compose them. To add a subject, write such a
module and add one line to `table`: replay, deltas and snapshots follow from it.
"""

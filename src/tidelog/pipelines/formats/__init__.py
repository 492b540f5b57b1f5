"""Keys and values: bytes to columns and back, for text, JSON, CSV, Avro and Protobuf, plain or framed for a registry.

`decoders` and `encoders` build Spark's expressions; `protobuf_worker` and `protobuf_codec` run in Spark's Python
workers. May ask a schema registry over HTTP (`registry`) and start `protoc`. No broker and no table is asked here.
"""

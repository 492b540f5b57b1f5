"""The gRPC door: `mq.MessageQueue`, `api.Kafka` and `tidelog.v1.Log` on one port.

`door` is what a node holds and imports nothing of gRPC; the other modules are imported when the door opens.
"""

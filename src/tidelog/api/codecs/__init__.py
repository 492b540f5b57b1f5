"""How requests and responses look on the wire, one module per API that needs a form of its own.

The Kafka listener and the forwarding between nodes put them around a handler. A handler knows nothing of them.
"""

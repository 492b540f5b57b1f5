"""Kafka's wire protocol: headers, generated messages, and hand-tuned codecs (`hot_*`) for the most frequent requests.

Pure. May use `records`, `codec` and `model`. `generated` comes from Kafka's definitions by `make generate`. A decoder
survives any bytes: it raises a typed error, and takes no memory that the frame does not pay for.
"""

"""Kafka's protocol from the client's end: how a node calls another node, and how commands and tests call any broker.

`conversation` is the pure part: correlation ids, frames and errors, without a socket. `connection` and `pipelined` are
built on it for the event loop, with many requests under way at a time; `blocking` is for commands, one at a time.
Nothing here knows what a request is for.
"""

"""Doors for programs without a Kafka client. A gateway translates requests and responses and decides nothing: each of
its requests goes through the dispatcher (`access.py`), with the permissions, metrics and limits of the Kafka door.

May use `api` and what lies below; nothing below may use it. A node imports a door only when its settings open it.
"""

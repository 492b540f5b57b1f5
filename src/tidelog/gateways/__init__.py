"""Doors beside Kafka's protocol. They translate into calls of the layers below, and decide nothing."""

"""Ways in beside Kafka's protocol, over HTTP for now. They translate into calls below and decide nothing."""

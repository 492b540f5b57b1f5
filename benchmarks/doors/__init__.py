"""What the other doors of a node cost, beside an empty handler on the same server library and beside the Kafka door."""

"""v2's consumer instances: consumers that this node holds for clients without a connection of their own."""

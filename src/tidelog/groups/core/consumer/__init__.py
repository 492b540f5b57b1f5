"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members are told by their heartbeats."""

"""Consumer groups: pure cores below `core`, and the coordinator that hosts them on `__consumer_offsets`."""

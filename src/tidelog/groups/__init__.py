"""Consumer groups of both protocols and their committed offsets.

`core` decides and replays; the coordinator hosts it on `__consumer_offsets`. May use `coordination` and below.
"""

"""States of transactions: decides requests into records and replays records into state.

Pure: no input or output; time is an argument. May use `coordination` for decisions, and `protocol` for its records.
"""

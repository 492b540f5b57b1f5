"""Classic groups and committed offsets: decides requests into records and replays records into state.

Pure: no input or output; time is an argument. `consumer` holds the groups of KIP-848.
"""

"""The transaction coordinator: which producer may write in which transaction, and how each transaction ends.

`core` decides and replays; the rest hosts it on `__transaction_state` and writes markers into every partition that took
part. May use `coordination` and below.
"""

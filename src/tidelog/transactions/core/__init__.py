"""Decides and replays: states of transactions without input or output."""

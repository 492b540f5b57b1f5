"""Ids, error codes, limits and the base of value types: what every other package names things with.

Pure, and imports no other package of ours.
"""

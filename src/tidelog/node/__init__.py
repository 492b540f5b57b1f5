"""Wires a node together: reads its settings, opens its parts in order, joins a cluster, closes everything in reverse.

The only place that knows every layer. May use all but `cli` and `testing`.
"""

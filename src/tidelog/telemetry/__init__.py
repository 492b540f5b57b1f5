"""Metrics and log lines.

May use `config` and `model`. Every layer above counts and logs through it, so counting costs an addition, and lines
that peers can provoke are limited.
"""

"""What pipelines fail with: one line that names the thing and says what to do about it."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot do what was asked; nothing was lost, and the message is one line."""


class MissingRequirement(PipelineError):
    """Something outside Python is missing: Java, PySpark or the connector's jars."""

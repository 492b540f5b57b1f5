"""What pipelines fail with: one line that names the thing and says what to do about it."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot do what was asked; nothing was lost, and the message is one line."""


class Unreachable(PipelineError):
    """A broker or a schema registry does not answer: nothing is wrong with what was asked, another attempt can help."""

    def __init__(self, who: str, detail: str) -> None:
        super().__init__(f"{who}: {detail}")
        self.who = who
        """The server that does not answer, in words that stay the same from one attempt to the next."""


class MissingRequirement(PipelineError):
    """Something outside Python is missing: Java, PySpark or the connector's jars."""

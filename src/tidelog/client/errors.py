"""The one exception of the client."""

from __future__ import annotations

from typing import Final

NO_ANSWER: Final = 0
"""Instead of an HTTP status, when no node has answered."""


class RequestFailed(Exception):
    """A request that was refused, or not answered in time. The message is one line."""

    def __init__(
        self, status: int, message: str, *, kafka_error: str | None = None, may_be_written: bool = False
    ) -> None:
        super().__init__(message if status == NO_ANSWER else f"{status}: {message}")
        self.status: Final = status
        """Of HTTP; 0 when there was no answer. 410: records that the session has seen are lost."""
        self.message: Final = message
        self.kafka_error: Final = kafka_error
        """Kafka's name of the error, where it has one."""
        self.may_be_written: Final = may_be_written
        """Of a publish: whether its records may be in the log nevertheless. To send them again may write them twice."""

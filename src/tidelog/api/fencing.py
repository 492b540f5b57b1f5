"""The error code of a fenced producer, by version: PRODUCER_FENCED is younger than most requests that need it."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode


def fenced_code(code: ErrorCode, version: int, first_version: int) -> ErrorCode:
    """`first_version` is the first that knows PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code

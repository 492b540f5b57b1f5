"""Regular expressions for topics, in RE2's dialect as in Kafka: matching takes time in proportion to the topic's name.

That is why a pattern may be matched while a request is decided, however hostile it is. Python's own engine has no such
bound. What a pattern may cost to compile is bounded by its length and by the memory RE2 may use for it, and how many a
group may have by a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tidelog.model.errors import BrokerError, ErrorCode

PATTERN_LENGTH_MAX = 4096
COMPILED_BYTES_MAX = 1 << 20


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Raises BrokerError for what is no regular expression, or is one that would cost too much."""
    import re2

    if len(pattern) > PATTERN_LENGTH_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has {len(pattern)} characters; at most {PATTERN_LENGTH_MAX} are allowed.",
        )
    options = re2.Options()
    options.max_mem = COMPILED_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise BrokerError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
        ) from None


def matching_topics(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """The topics of which the whole name matches, ascending; none for a pattern that this node does not understand."""
    try:
        matches = compile_pattern(pattern).fullmatch
    except BrokerError:
        return ()
    return tuple(sorted(topic for topic in topics if matches(topic) is not None))

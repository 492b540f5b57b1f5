"""What a batch function raises, in a form that Spark can search when the query is being stopped.

A query that is stopped in the middle of a batch sees the batch fail, and Spark searches the text of the error for an
interruption: with a regular expression that begins at the words below and takes several frames of the Java stack for
every character behind them. A Java stack trace of thousands of characters stands behind them, so the thread of the
query died with a StackOverflowError and printed 1,024 lines. Here the words are taken out of the text; where there was
an interruption they are put at its very end, with the name that Spark looks for and nothing behind it.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEARCHED_FROM = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_INTERRUPTION = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException|java\.nio\.channels\.ClosedByInterruptException"
)


class BatchFailed(Exception):
    """A batch failed in Java; the text holds the whole stack of Python and Java."""


def searchable(write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`: `write`, whose errors Spark can search without harm."""

    @functools.wraps(write)
    def write_batch(df: DataFrame, batch: int) -> None:
        try:
            write(df, batch)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            if SEARCHED_FROM not in text:
                raise
            raise BatchFailed(searchable_text(text)) from None

    return write_batch


def searchable_text(text: str) -> str:
    interruption = _INTERRUPTION.search(text)
    kept = text.replace(SEARCHED_FROM, SEARCHED_FROM.partition(": ")[2])
    return kept if interruption is None else f"{kept}\n{SEARCHED_FROM} a batch: {interruption[0]}"

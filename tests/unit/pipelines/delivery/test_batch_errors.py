"""An error of a batch keeps its text, and nothing long stands behind the words that Spark searches from."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tidelog.pipelines.delivery.batch_errors import SEARCHED_FROM, BatchFailed, searchable, searchable_text

SPARKS_SEARCH = re.compile(re.escape(SEARCHED_FROM) + r"(.|\n)*(java.lang.InterruptedException)")
STACK = "".join(f"\n\tat org.apache.spark.Something.run(Something.java:{line})" for line in range(200))


class Py4JJavaError(Exception):
    """Rendered as the one of py4j is."""


Py4JJavaError.__module__ = "py4j.protocol"


def fail_with(error: Exception) -> Any:
    def write(_df: Any, _batch: int) -> None:
        raise error

    return searchable(write)


@pytest.mark.parametrize("name", ["java.lang.InterruptedException", "java.nio.channels.ClosedByInterruptException"])
def test_an_interruption_stands_at_the_end(name: str) -> None:
    error = Py4JJavaError(f"An error occurred while calling o8.save.\n: {name}{STACK}")
    with pytest.raises(BatchFailed) as raised:
        fail_with(error)(None, 0)
    text = str(raised.value)
    assert text.count(SEARCHED_FROM) == 1
    assert text.endswith(f"{SEARCHED_FROM} a batch: {name}")
    assert "Something.java:199" in text


def test_spark_finds_it_with_its_own_search() -> None:
    found = SPARKS_SEARCH.search(searchable_text(f"{SEARCHED_FROM} o8.save.\n: java.lang.InterruptedException{STACK}"))
    assert found is not None
    assert len(found[0]) < 150


def test_another_failure_has_nothing_to_search_from() -> None:
    cancelled = f"An error occurred while calling o8.save.\n: org.apache.spark.SparkException: Job 7 cancelled{STACK}"
    with pytest.raises(BatchFailed) as raised:
        fail_with(Py4JJavaError(cancelled))(None, 0)
    assert SEARCHED_FROM not in str(raised.value)
    assert cancelled in str(raised.value)


def test_what_caused_an_error_is_searched_too() -> None:
    error = ValueError("the batch cannot be written")
    error.__cause__ = Py4JJavaError(f"An error occurred while calling o8.save.{STACK}")
    with pytest.raises(BatchFailed, match="ValueError: the batch cannot be written"):
        fail_with(error)(None, 0)


def test_errors_of_python_stay_as_they_are() -> None:
    error = ValueError("a column is missing")
    with pytest.raises(ValueError, match="a column is missing") as raised:
        fail_with(error)(None, 0)
    assert raised.value is error

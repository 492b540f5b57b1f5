from __future__ import annotations

import pytest

from tidelog.pipelines.delivery.triggers import Trigger, as_trigger
from tidelog.pipelines.errors import PipelineError


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("available-now", {"availableNow": True}),
        ("once", {"availableNow": True}),
        ("10 seconds", {"processingTime": "10000 milliseconds"}),
        ("1 millisecond", {"processingTime": "1 milliseconds"}),
        ("2 minutes", {"processingTime": "120000 milliseconds"}),
        ("1 hour", {"processingTime": "3600000 milliseconds"}),
        ("1 day", {"processingTime": "86400000 milliseconds"}),
        ("continuous 1 second", {"continuous": "1000 milliseconds"}),
    ],
)
def test_words_become_arguments_of_spark(words: str, arguments: dict[str, object]) -> None:
    trigger = as_trigger(words)
    assert trigger is not None
    assert trigger.spark_arguments() == arguments


def test_a_trigger_is_not_parsed_again() -> None:
    trigger = Trigger(kind="interval", interval_ms=5)
    assert as_trigger(trigger) is trigger
    assert as_trigger(None) is None


@pytest.mark.parametrize("words", ["sometimes", "10", "seconds", "continuous", "continuous available-now", "-1 second"])
def test_other_words_are_one_line(words: str) -> None:
    with pytest.raises(PipelineError, match="available-now"):
        as_trigger(words)

"""The one way tests wait: what it returns, and what it says when a deadline passes."""

from __future__ import annotations

import pytest
from tests.waiting import eventually, wait_until


def test_what_the_condition_returned_is_returned() -> None:
    answers = iter([None, 0, "found"])
    assert wait_until(lambda: next(answers), "an answer", interval_s=0) == "found"


def test_a_missed_deadline_says_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"^waited 0\.01 s for: a leader$"):
        wait_until(lambda: False, "a leader", 0.01)


def test_the_text_is_made_when_the_deadline_has_passed() -> None:
    seen: list[int] = []

    def count() -> bool:
        seen.append(1)
        return False

    with pytest.raises(TimeoutError, match=r"for: 3 records, read [1-9]"):
        wait_until(count, lambda: f"3 records, read {len(seen)}", 0.0)


async def test_conditions_of_both_kinds() -> None:
    async def is_there() -> bool:
        return True

    assert await eventually(is_there, "a coroutine")
    assert await eventually(lambda: "a value", "a function") == "a value"
    with pytest.raises(TimeoutError, match="for: nothing"):
        await eventually(lambda: False, "nothing", 0.01)

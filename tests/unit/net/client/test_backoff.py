"""Delays after failures: they double up to a bound, half of each is chance, and an answer ends them."""

from __future__ import annotations

import pytest

from tidelog.net.client.backoff import BACKOFF_FIRST_S, BACKOFF_MAX_S, Backoff


def rest_s(backoff: Backoff, now_s: float) -> float:
    """How long it rests from now on, to a millisecond."""
    return next(step / 1000 for step in range(5000) if not backoff.is_resting(now_s + step / 1000))


def test_each_failure_doubles_the_delay_up_to_a_bound() -> None:
    backoff = Backoff()
    assert not backoff.is_resting(0.0)
    delays = []
    for _ in range(8):
        backoff.failed("refused", 10.0, 0.5)
        delays.append(rest_s(backoff, 10.0) / 0.75)
    assert delays[0] == pytest.approx(BACKOFF_FIRST_S, abs=0.002)
    assert delays[1] == pytest.approx(2 * BACKOFF_FIRST_S, abs=0.002)
    assert delays[-2:] == pytest.approx([BACKOFF_MAX_S] * 2, abs=0.002)
    assert backoff.reason == "refused"


def test_half_of_the_delay_is_chance() -> None:
    rests = []
    for chance in (0.0, 0.999):
        backoff = Backoff()
        backoff.failed("refused", 0.0, chance)
        rests.append(rest_s(backoff, 0.0))
    assert rests == pytest.approx([BACKOFF_FIRST_S / 2, BACKOFF_FIRST_S], abs=0.002)


def test_an_answer_starts_the_delays_again_and_a_new_address_is_tried_at_once() -> None:
    backoff = Backoff()
    for _ in range(4):
        backoff.failed("refused", 0.0, 0.0)
    assert backoff.has_failed
    backoff.answered()
    assert not backoff.has_failed
    backoff.failed("lost", 0.0, 0.0)
    assert rest_s(backoff, 0.0) == pytest.approx(BACKOFF_FIRST_S / 2, abs=0.002)
    backoff.forget()
    assert not backoff.is_resting(0.0)

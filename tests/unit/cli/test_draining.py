"""Which topics a drain would take replicas from, and the line that refuses it."""

from __future__ import annotations

from tidelog.cli.draining import Shortfall, explain_refusal, find_shortfalls
from tidelog.model.ids import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_only_topics_that_lose_replicas_are_found() -> None:
    placement = {A: (1, 3), B: (1, 2)}
    assert find_shortfalls(placement, {A: (1,), B: (1, 4)}, {"a": 3}, {"a": 2}) == [Shortfall("a", 1, 3, 2)]


def test_the_refusal_is_one_line_that_names_the_worst_first() -> None:
    line = explain_refusal(3, [*(Shortfall(f"t{n}", 2, 3, 2) for n in range(4)), Shortfall("worst", 1, 3, 2)])
    assert "5 topics" in line
    assert "(worst 1 of 3, t0 2 of 3, t1 2 of 3 and 2 more), 1 of them below min.insync.replicas" in line
    assert "\n" not in line

from __future__ import annotations

from tidelog.gateways.grpc.assigning import assign
from tidelog.gateways.grpc.consumer_protocol import RANGE, ROUND_ROBIN

BOTH = ("a", "b")


def test_ranges_are_per_topic() -> None:
    members = {"m2": BOTH, "m1": BOTH, "m3": ("b",)}
    assert assign(RANGE, members, {"a": 3, "b": 3}) == {
        "m1": {"a": [0, 1], "b": [0]},
        "m2": {"a": [2], "b": [1]},
        "m3": {"b": [2]},
    }


def test_more_members_than_partitions() -> None:
    assert assign(RANGE, {"m1": ("a",), "m2": ("a",)}, {"a": 1}) == {"m1": {"a": [0]}, "m2": {}}


def test_round_robin_goes_over_all_topics() -> None:
    assert assign(ROUND_ROBIN, {"m1": BOTH, "m2": BOTH}, {"a": 3, "b": 2}) == {
        "m1": {"a": [0, 2], "b": [1]},
        "m2": {"a": [1], "b": [0]},
    }


def test_round_robin_passes_over_who_does_not_want_the_topic() -> None:
    assert assign(ROUND_ROBIN, {"m1": ("a",), "m2": BOTH}, {"a": 1, "b": 2, "c": 4}) == {
        "m1": {"a": [0]},
        "m2": {"b": [0, 1]},
    }


def test_a_topic_that_is_not_there_gets_to_nobody() -> None:
    assert assign(RANGE, {"m1": ("gone",)}, {}) == {"m1": {}}

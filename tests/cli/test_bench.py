"""`tidelog bench` against a real broker."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.command import Command

SMALL = ["--records", "5000", "--size", "100", "--singles", "50", "--rate", "200", "--seconds", "0.5"]


def test_all_cases_for_programs(tidelog: Command) -> None:
    before = {topic["name"] for topic in tidelog("topics", "list", "--json").json}
    document = tidelog("bench", *SMALL, "--producers", "2", "--partitions", "2", "--json").json
    results = document["results"]
    assert set(results) == {"produce", "consume", "single", "end-to-end"}
    assert results["produce"]["records"] == 5000
    assert results["consume"]["records"] == 5000
    assert results["single"]["records"] == 50
    assert results["end-to-end"]["records"] == 100
    for case in ("single", "end-to-end"):
        latency = results[case]
        assert 0 < latency["p50_ms"] <= latency["p99_ms"] <= latency["max_ms"]
    assert {topic["name"] for topic in tidelog("topics", "list", "--json").json} <= before


def test_some_cases_for_people(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    out = tidelog("bench", *SMALL, "--topic", topic, "--case", "produce", "--case", "consume", "--idempotent").out
    assert "acks all" in out
    assert [line.split()[:2] for line in out.splitlines()[-2:]] == [["produce", "5,000"], ["consume", "5,000"]]
    [described] = tidelog("topics", "describe", topic, "--json").json
    assert described["partitions"][0]["latest"] == 5000


def test_a_topic_that_is_not_there(tidelog: Command, new_name: Callable[[], str]) -> None:
    assert "does not exist" in tidelog("bench", "--topic", new_name(), "--case", "single", fails=True).err

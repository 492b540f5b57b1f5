"""The same bytes go to Apache Kafka and to Tidelog, and the answers are compared field by field.

Both are fresh and get the same requests in the same order, so offsets, epochs and the record bytes of a fetch must be
the same too. What is known to differ stands in KNOWN with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.apache_kafka import start_kafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.tidelog_node import start_tidelog
from benchmarks.wire import Connection, ConnectionLost
from tests.conformance.differential.answers import plain
from tests.conformance.protocol.cases import BAD_CASES, CLIENT, GOOD_CASES, Case
from tests.conformance.protocol.world import World, learn_topic_ids, set_up_world
from tests.servers.tools import require_kafka

pytestmark = pytest.mark.java

KNOWN: Mapping[str, str] = {}
"""Name of a case -> why the answers may differ."""

CLOSED = "the connection was closed"
CASES = [(case, version) for case in (*GOOD_CASES, *BAD_CASES) for version in case.versions]
Answers = dict[tuple[str, int], Any]


def ask(world: World, case: Case, version: int, port: int) -> Any:
    try:
        return plain(world.connection.call(case.build(world, version), version))
    except ConnectionLost:
        world.connection.close()
        world.connection = Connection(port)
        return CLOSED


def ask_everything(broker: BrokerProcess) -> Answers:
    world = set_up_world(Connection(broker.port))
    try:
        learn_topic_ids(world)
        return {(case.name, version): ask(world, case, version, broker.port) for case, version in CASES}
    finally:
        world.connection.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    require_kafka()
    directory: Path = tmp_path_factory.mktemp("differential")
    with start_kafka(directory / "kafka") as kafka, start_tidelog(directory / "tidelog") as tidelog:
        yield kafka, tidelog


@pytest.fixture(scope="module")
def answers(brokers: tuple[BrokerProcess, BrokerProcess]) -> tuple[Answers, Answers]:
    kafka, tidelog = brokers
    return ask_everything(kafka), ask_everything(tidelog)


def comparable(case: Case, answer: Any) -> Any:
    """Lists whose order means nothing are sorted; the topic configs that only one side knows are left out."""
    if answer == CLOSED:
        return answer
    if case.name == "api-versions":
        return {**answer, "api_keys": "..."}
    if case.name == "describe-topic-config":
        [result] = answer["results"]
        configs = {config["name"]: config for config in result["configs"] if not config["name"].startswith("tidelog.")}
        return {**answer, "results": {**result, "configs": dict(sorted(configs.items()))}}
    if case.name == "list-topic-config-resources":
        names = sorted(entry["resource_name"] for entry in answer["config_resources"])
        return {**answer, "config_resources": names}
    return answer


@pytest.mark.parametrize(
    ("case", "version"), [pytest.param(case, version, id=f"{case.name}-v{version}") for case, version in CASES]
)
def test_the_answer_is_kafkas(answers: tuple[Answers, Answers], case: Case, version: int) -> None:
    if case.name in KNOWN:
        pytest.xfail(KNOWN[case.name])
    kafka, tidelog = (comparable(case, side[case.name, version]) for side in answers)
    assert tidelog == kafka


def test_the_same_versions_are_served(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    """Of the APIs that Tidelog has, in all versions that Kafka has."""
    ranges: list[dict[int, tuple[int, int]]] = []
    for broker in brokers:
        with Connection(broker.port) as connection:
            listed = connection.call(CLIENT, 4)
        ranges.append({api.api_key: (api.min_version, api.max_version) for api in listed.api_keys})
    kafka, tidelog = ranges
    assert tidelog == {key: kafka[key] for key in tidelog}

"""The same bytes go to Apache Kafka and to Tidelog, and the answers are compared field by field.

Both are fresh and get the same requests in the same order, so offsets, epochs and the record bytes of a fetch must be
the same too. What is known to differ stands in KNOWN with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.differential.answers import plain
from tests.conformance.protocol.cases import BAD_CASES, CLIENT, GOOD_CASES, Case
from tests.conformance.protocol.world import COMPACTED, TOPIC, World, learn_topic_ids, set_up_world
from tests.servers.apache_kafka import start_kafka
from tests.servers.broker_process import BrokerProcess
from tests.servers.tidelog_node import start_tidelog
from tests.servers.tools import require_kafka
from tests.servers.wire import Connection, ConnectionLost

pytestmark = pytest.mark.java

KNOWN: Mapping[str, str] = {
    "produce-unknown-codec": "Kafka answers UNKNOWN_SERVER_ERROR, an accident; here it is INVALID_RECORD",
    "describe-topic-config": "defaults by hours and schedulers are listed as synonyms too; Kafka leaves them out",
    "describe-one-topic-config": "defaults by hours and schedulers are listed as synonyms too; Kafka leaves them out",
    "describe-one-broker-config-twice": "Kafka tells it twice; a few bytes are not to be told thousands here",
    "describe-producers-twice": "Kafka tells them twice; a few bytes are not to be told thousands here",
    "increment-config-wrong-operation": "Kafka answers UNKNOWN_SERVER_ERROR, an accident; here it is INVALID_REQUEST",
}
"""Name of a case -> why the answers differ."""

ONLY_TIDELOG = ("tidelog.",)
ONLY_KAFKA = ("remote.", "local.retention.")
"""Configs of one side; Kafka's are those of tiered storage."""

STATIC_SOURCE, DEFAULT_SOURCE = 4, 5
SET_BY_THE_START = frozenset({"segment.bytes", "min.insync.replicas", "num.partitions"})
"""Configs that Kafka's stock properties file or its first start set, to what is the default anyway."""

CLOSED = "the connection was closed"
CASES = [(case, version) for case in (*GOOD_CASES, *BAD_CASES) for version in case.versions]
Answers = dict[tuple[str, int], Any]


def ask(world: World, case: Case, version: int) -> Any:
    try:
        return plain(world.connection.call(case.build(world, version), version))
    except ConnectionLost:
        world.connection.close()
        world.connection = Connection(world.port)
        return CLOSED


def ask_everything(broker: BrokerProcess) -> Answers:
    world = set_up_world(broker.port)
    try:
        learn_topic_ids(world)
        return {(case.name, version): ask(world, case, version) for case, version in CASES}
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
    if case.name.startswith("describe") and "config" in case.name:
        return {**answer, "results": [_with_comparable_configs(result) for result in answer["results"]]}
    if case.name.startswith("create-topic"):
        return {**answer, "topics": [_with_comparable_configs(topic) for topic in answer["topics"]]}
    if case.name == "produce-transactional-beside":
        [topic] = answer["responses"]
        parts = sorted(topic["partition_responses"], key=lambda part: part["index"])
        return {**answer, "responses": [{**topic, "partition_responses": parts}]}
    if case.name == "elect-leaders-of-all":
        results = answer["replica_election_results"]
        return {**answer, "replica_election_results": [each for each in results if each["topic"] == TOPIC]}
    if case.name == "list-topic-config-resources":
        # Kafka may not list yet what was created a moment ago.
        names = {entry["resource_name"] for entry in answer["config_resources"]}
        return {**answer, "config_resources": sorted(names & {TOPIC, COMPACTED})}
    return answer


def _with_comparable_configs(described: dict[str, Any]) -> dict[str, Any]:
    if not described["configs"]:
        return described
    configs = {}
    for config in described["configs"]:
        name = config["name"]
        if name.startswith(ONLY_TIDELOG + ONLY_KAFKA):
            continue
        configs[name] = config
        if name in SET_BY_THE_START:
            configs[name] = {**config, "config_source": "...", "synonyms": "..."}
        elif name == "retention.ms" and config["config_source"] in (STATIC_SOURCE, DEFAULT_SOURCE):
            configs[name] = {**config, "config_source": "static or default"}
    return {**described, "configs": dict(sorted(configs.items()))}


@pytest.mark.parametrize(
    ("case", "version"),
    [
        pytest.param(
            case,
            version,
            id=f"{case.name}-v{version}",
            marks=[pytest.mark.xfail(reason=KNOWN[case.name])] if case.name in KNOWN else [],
        )
        for case, version in CASES
    ],
)
def test_the_answer_is_kafkas(answers: tuple[Answers, Answers], case: Case, version: int) -> None:
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

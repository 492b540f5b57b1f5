"""What requests to consumer instances may say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.gateways.consuming import Reset
from tidelog.gateways.http.messages import Body, Request
from tidelog.gateways.http.proxy.consumers.bodies import read_offsets, read_partitions, read_subscription
from tidelog.gateways.http.proxy.consumers.settings import ConsumerSettings, read_settings
from tidelog.gateways.http.proxy.errors import INVALID_CONSUMER_CONFIG, UNPROCESSABLE, ProxyError
from tidelog.gateways.http.proxy.formats import JSON_FORMAT
from tidelog.gateways.membership import Subscription
from tidelog.model import limits
from tidelog.model.ids import TopicPartition


def request_with(value: Any) -> Request:
    body = Body(lambda _: None)
    body.feed(json.dumps(value).encode())
    body.complete()
    return Request("POST", "/", "", {}, body)


def test_settings_have_defaults() -> None:
    assert read_settings({}) == ConsumerSettings()
    assert read_settings({"name": None, "format": None}) == ConsumerSettings()


def test_settings_as_text_and_as_values() -> None:
    expected = ConsumerSettings("worker", JSON_FORMAT, Reset.EARLIEST, False, 100, 250)
    common = {"name": "worker", "format": "JSON", "auto.offset.reset": "earliest"}
    texts = {"auto.commit.enable": "false", "fetch.min.bytes": "100", "consumer.request.timeout.ms": "250"}
    values = {"auto.commit.enable": False, "fetch.min.bytes": 100, "consumer.request.timeout.ms": 250}
    assert read_settings(common | texts) == read_settings(common | values) == expected


def test_minus_one_is_the_smallest_answer() -> None:
    assert read_settings({"fetch.min.bytes": "-1"}).min_bytes == 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "é", "a\n", "x" * 250, 7])
def test_names_that_no_path_has(name: Any) -> None:
    with pytest.raises(ProxyError) as refused:
        read_settings({"name": name})
    assert (refused.value.status, refused.value.number) == (422, INVALID_CONSUMER_CONFIG)


@pytest.mark.parametrize("said", ["1" * 21, "1_0", " 1", "٣", 2**70, True, 1.0, [], "-2"])
def test_numbers_that_are_none(said: Any) -> None:
    with pytest.raises(ProxyError, match=r"fetch\.min\.bytes must be between -1 and"):
        read_settings({"fetch.min.bytes": said})


def test_subscriptions() -> None:
    assert read_subscription(request_with({"topics": ["b", "a", "b"]})) == Subscription(topics=("b", "a"))
    assert read_subscription(request_with({"topic_pattern": "a.*"})) == Subscription(pattern="a.*")


def test_partitions_and_offsets() -> None:
    said = [{"topic": "a", "partition": 1, "offset": 7}, {"topic": "a", "partition": 1, "offset": 9}]
    assert read_partitions(request_with({"partitions": said})) == [TopicPartition("a", 1)]
    assert read_offsets({"offsets": said}) == {TopicPartition("a", 1): 9}


@pytest.mark.parametrize("partition", [-1, 2**31, "0", None, True, 1.5])
def test_partitions_that_cannot_be(partition: Any) -> None:
    with pytest.raises(ProxyError, match=r"partitions\[0\].partition must be an integer") as refused:
        read_partitions(request_with({"partitions": [{"topic": "a", "partition": partition}]}))
    assert refused.value.number == UNPROCESSABLE


def test_the_offset_behind_the_last_can_be_committed() -> None:
    last = 2**63 - 2
    assert read_offsets({"offsets": [{"topic": "a", "partition": 0, "offset": last}]}) == {TopicPartition("a", 0): last}
    with pytest.raises(ProxyError, match="offset must be"):
        read_offsets({"offsets": [{"topic": "a", "partition": 0, "offset": last + 1}]})


def test_a_request_names_a_bounded_number_of_partitions() -> None:
    most = [{"topic": "a", "partition": index} for index in range(limits.HTTP_CONSUMER_PARTITIONS_MAX)]
    assert len(read_partitions(request_with({"partitions": most}))) == limits.HTTP_CONSUMER_PARTITIONS_MAX
    with pytest.raises(ProxyError, match="at most"):
        read_partitions(request_with({"partitions": [*most, {"topic": "a", "partition": 0}]}))

"""What topics remember of drains: written and taken back by the decisions that move their replicas."""

from __future__ import annotations

from tests.unit.controller.test_cordoned import CONFIG, cordoned, four
from tests.unit.controller.test_topics import create
from tests.unit.metadata.images import replayed

from tidelog.config.lowered import LOWERED, Lowered, lowered_of, parse_lowered
from tidelog.controller.core.configs import DELETE, SET, ConfigChange, ResourceChange, decide_alter_configs
from tidelog.controller.core.internal_topics import internal_topic
from tidelog.controller.core.reassignments import Reassignment, decide_reassign
from tidelog.controller.core.spreading import plan_factors, plan_restore
from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.configs import RESOURCE_TOPIC
from tidelog.metadata.image import MetadataImage
from tidelog.model.ids import TopicPartition

P = TopicPartition("t", 0)


def reassign(image: MetadataImage, *replicas: int) -> MetadataImage:
    decision = decide_reassign(image, CONFIG, [Reassignment(P, replicas)])
    assert decision.reply[0].error is None
    return replayed(image, decision.records)[0]


def three_replicas() -> MetadataImage:
    return create(four(), NewTopic("t", -1, -1, assignments=[(0, [1, 2, 3])]))[0]


def test_a_drain_is_remembered_until_all_is_back() -> None:
    image = reassign(cordoned(three_replicas(), 3), 1, 2)
    assert lowered_of(image.topics["t"].config) == Lowered(3, (3,))
    image = reassign(cordoned(image, 2), 1)
    assert lowered_of(image.topics["t"].config) == Lowered(3, (2, 3))
    image = reassign(image, 1, 4)
    assert lowered_of(image.topics["t"].config) == Lowered(3, (2, 3))


def test_a_reassignment_without_a_drained_node_is_not() -> None:
    assert lowered_of(reassign(three_replicas(), 1, 2).topics["t"].config) is None


def test_only_the_controller_sets_it() -> None:
    image = reassign(cordoned(three_replicas(), 3), 1, 2)

    def alter(operation: int, value: str | None) -> object:
        change = ResourceChange(RESOURCE_TOPIC, "t", [ConfigChange(LOWERED, operation, value)])
        return decide_alter_configs(image, CONFIG, [change]).reply[0].error

    assert alter(SET, "9:1") is not None
    assert alter(DELETE, None) is None
    replaced = decide_alter_configs(image, CONFIG, [ResourceChange(RESOURCE_TOPIC, "t", [], replace=True)])
    assert replaced.records == []
    assert create(image, NewTopic("u", 1, 1, configs=[(LOWERED, "3:1")]))[2][0].error is not None


def test_an_internal_topic_made_meanwhile_remembers_what_it_would_have_had() -> None:
    topic = internal_topic("__consumer_offsets", CONFIG, four(2, 3))
    assert topic is not None
    image = create(four(2, 3), topic)[0]
    assert lowered_of(image.topics["__consumer_offsets"].config) == Lowered(3, (2, 3))


def test_plans_of_factors() -> None:
    placement = {P: (1, 2, 3)}
    racks = dict.fromkeys((1, 2, 4))
    assert plan_factors(placement, racks, {"t": 2}, {P: (1, 2)}) == {P: (1, 2)}
    assert plan_factors({P: (1,)}, racks, {"t": 9}, {}) == {P: (1, 2, 4)}
    assert plan_restore(placement, racks, {"t": 2}) == {}
    assert plan_restore({P: (1, 2)}, racks, {"t": 3}) == {P: (1, 2, 4)}


def test_text() -> None:
    assert parse_lowered(Lowered(3, (2, 5)).text()) == Lowered(3, (2, 5))
    assert [parse_lowered(wrong) for wrong in ("", "3", "0:1", "3:", "3:x")] == [None] * 5

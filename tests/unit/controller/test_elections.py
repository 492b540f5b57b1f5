"""Elections an operator asks for."""

from tests.unit.controller.test_topics import create
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.controller.core.elections import PREFERRED, UNCLEAN, decide_elect_leaders
from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord

P0 = TopicPartition("t", 0)


def image(*, leader: int, isr: list[int], fenced: int | None = None) -> MetadataImage:
    made, _, _ = create(cluster(broker(1), broker(2)), NewTopic("t", assignments=[(0, [1, 2]), (1, [2, 1])]))
    topic_id = made.topics["t"].topic_id
    made, _ = replayed(made, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)])
    if fenced is not None:
        made, _ = replayed(made, [BrokerRegistrationChangeRecord(broker_id=fenced, broker_epoch=0, fenced=1)])
    return made


def elected(before: MetadataImage, kind: int) -> tuple[ErrorCode | None, tuple[int, tuple[int, ...], int]]:
    decision = decide_elect_leaders(before, kind, [P0])
    [outcome] = decision.reply
    state = replayed(before, decision.records)[0].topics["t"].partitions[0]
    return outcome.error and outcome.error.code, (state.leader, state.isr, state.leader_epoch)


def test_the_preferred_leader_comes_back() -> None:
    assert elected(image(leader=2, isr=[1, 2]), PREFERRED) == (None, (1, (1, 2), 2))
    assert elected(image(leader=1, isr=[1, 2]), PREFERRED)[0] == ErrorCode.ELECTION_NOT_NEEDED
    assert elected(image(leader=2, isr=[2]), PREFERRED)[0] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elected(image(leader=2, isr=[1, 2], fenced=1), PREFERRED)[0] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_unclean_election_takes_who_is_left() -> None:
    assert elected(image(leader=1, isr=[1]), UNCLEAN)[0] == ErrorCode.ELECTION_NOT_NEEDED
    assert elected(image(leader=-1, isr=[1], fenced=1), UNCLEAN) == (None, (2, (2,), 2))
    assert elected(image(leader=-1, isr=[2]), UNCLEAN) == (None, (2, (2,), 2))


def test_unknown_partitions() -> None:
    asked = [TopicPartition("t", 9), TopicPartition("x", 0)]
    outcomes = decide_elect_leaders(image(leader=1, isr=[1]), PREFERRED, asked).reply
    assert [o.error and o.error.message for o in outcomes] == ["No such partition as t-9", "No such topic as x"]
    assert {o.error and o.error.code for o in outcomes} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_all_partitions_leave_out_those_that_need_none() -> None:
    outcomes = decide_elect_leaders(image(leader=2, isr=[1, 2]), PREFERRED, None).reply
    assert [(o.partition, o.error) for o in outcomes] == [(P0, None)]

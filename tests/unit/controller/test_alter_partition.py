"""AlterPartition and reassignments: Kafka's answers to good and bad reports of in-sync replicas."""

from __future__ import annotations

import pytest
from tests.unit.controller.test_brokers import after, on_disks, partition, registration, with_topic
from tests.unit.metadata.images import broker, cluster, directory_id

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.alter_partition import InSyncReplica, IsrChange, decide_alter_partitions
from tidelog.controller.core.brokers import decide_fence_broker, decide_heartbeat, decide_register_broker
from tidelog.controller.core.elections import decide_balance_leaders
from tidelog.controller.core.placement import place_on_least_loaded
from tidelog.controller.core.reassignments import (
    Reassignment,
    decide_complete_reassignments,
    decide_reassign,
    list_reassignments,
)
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

CONFIG = BrokerConfig()
P0 = TopicPartition("t", 0)
FOUR = cluster(*(broker(n) for n in (1, 2, 3, 4)))


def change(image: MetadataImage, *isr: int, **rest: object) -> IsrChange:
    state = partition(image)
    made = IsrChange(
        image.topics["t"].topic_id, 0, state.leader_epoch, state.partition_epoch, [InSyncReplica(n) for n in isr]
    )
    return made._replace(**rest)


def reported(image: MetadataImage, wanted: IsrChange, node_id: int = 1) -> tuple[MetadataImage, ErrorCode | None]:
    decision = decide_alter_partitions(image, node_id, 0, [wanted])
    [outcome] = decision.reply
    made = after(image, decision)
    if outcome.error is None:
        assert outcome.state == partition(made)
    return made, outcome.error and outcome.error.code


def test_the_in_sync_set_shrinks_and_grows() -> None:
    image = with_topic((1, 2, 3))
    image, error = reported(image, change(image, 1, 2))
    assert (error, partition(image).isr, partition(image).leader_epoch, partition(image).partition_epoch) == (
        None,
        (1, 2),
        0,
        1,
    )
    image, error = reported(image, change(image, 1, 2, 3))
    assert (error, partition(image).isr) == (None, (1, 2, 3))
    assert reported(image, change(image, 1, 2, 3)) == (image, None) or partition(image).partition_epoch == 2


def test_a_replica_in_sync_again_is_known_by_the_disk_it_is_on_now() -> None:
    image = on_disks(with_topic((1, 2, 3)), 1, 2, 3)
    image = after(image, decide_register_broker(image, CONFIG, registration(2, directories=(b"x" * 16,))))
    image = after(image, decide_heartbeat(image, CONFIG, 2, image.brokers[2].epoch, metadata_offset=99))
    assert (partition(image).leader, partition(image).isr) == (1, (1, 3))
    image, error = reported(image, change(image, 1, 2, 3))
    assert (error, partition(image).isr) == (None, (1, 2, 3))
    assert partition(image).directories == (directory_id(1), b"x" * 16, directory_id(3))


@pytest.mark.parametrize(
    ("given", "node_id", "code"),
    [
        ({"leader_epoch": 9}, 1, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 9}, 1, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, 1, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, 1, ErrorCode.INVALID_UPDATE_VERSION),
        ({}, 2, ErrorCode.INVALID_REQUEST),
        ({"isr": [InSyncReplica(1), InSyncReplica(9)]}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": [InSyncReplica(2)]}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": [InSyncReplica(1), InSyncReplica(1)]}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": []}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": [InSyncReplica(1), InSyncReplica(2, 4)]}, 1, ErrorCode.INELIGIBLE_REPLICA),
        ({"recovery_state": 1}, 1, ErrorCode.INVALID_REQUEST),
        ({"topic_id": b"x" * 16}, 1, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 7}, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(given: dict[str, object], node_id: int, code: ErrorCode) -> None:
    image = with_topic((1, 2))
    image = after(image, decide_fence_broker(image, CONFIG, 1))
    image = after(image, decide_heartbeat(image, CONFIG, 1, 0, metadata_offset=99))
    image, _ = reported(image, change(image, 2, 1), node_id=2)
    image = after(image, decide_balance_leaders(image))
    assert (partition(image).leader, partition(image).leader_epoch) == (1, 2)
    same, error = reported(image, change(image, 1, 2, **given), node_id)
    assert error == code
    assert partition(same) == partition(image)


def test_a_fenced_replica_may_not_come_in_and_a_stale_leader_may_not_speak() -> None:
    image = with_topic((1, 2))
    image = after(image, decide_fence_broker(image, CONFIG, 2))
    assert reported(image, change(image, 1, 2))[1] == ErrorCode.INELIGIBLE_REPLICA
    with pytest.raises(BrokerError) as raised:
        decide_alter_partitions(image, 1, 5, [])
    assert raised.value.code == ErrorCode.STALE_BROKER_EPOCH


# -- reassignment ------------------------------------------------------------------------------------------------------


def reassign(image: MetadataImage, *replicas: int, factor: bool = True) -> tuple[MetadataImage, ErrorCode | None]:
    wanted = [Reassignment(P0, replicas or None)]
    decision = decide_reassign(image, CONFIG, wanted, allow_factor_change=factor)
    [outcome] = decision.reply
    return after(image, decision), outcome.error and outcome.error.code


def test_a_partition_moves_when_the_new_replicas_are_in_sync() -> None:
    image, error = reassign(with_topic((1, 2), image=FOUR), 3, 4)
    assert error is None
    assert partition(image)[3:7] == ((3, 4, 1, 2), (1, 2), (1, 2), (3, 4))
    [ongoing] = list_reassignments(image)
    assert (ongoing.partition, ongoing.adding, ongoing.removing) == (P0, (3, 4), (1, 2))
    image, error = reported(image, change(image, 1, 2, 3))
    assert (error, partition(image).leader) == (None, 1)
    image, error = reported(image, change(image, 1, 2, 3, 4))
    # The last report completes it, and takes the leadership from the node that reported.
    assert error == ErrorCode.NEW_LEADER_ELECTED
    state = partition(image)
    assert (state.leader, state.replicas, state.isr, state.adding_replicas, state.removing_replicas) == (
        3,
        (3, 4),
        (3, 4),
        (),
        (),
    )
    assert len(state.directories) == 2
    assert list(list_reassignments(image)) == []


def test_a_replica_that_only_goes_goes_at_once_and_its_epoch_with_it() -> None:
    image, error = reassign(with_topic((1, 2, 3)), 1, 3)
    assert (error, partition(image).replicas, partition(image).isr) == (None, (1, 3), (1, 3))
    assert (partition(image).leader, partition(image).leader_epoch) == (1, 1)


def test_a_reassignment_can_be_called_off_or_replaced() -> None:
    before = with_topic((1, 2), image=FOUR)
    moving, _ = reassign(before, 3, 4)
    image, error = reassign(moving)
    assert (error, partition(image).replicas, partition(image).isr) == (None, (1, 2), (1, 2))
    assert reassign(image)[1] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    image, error = reassign(moving, 1, 4)
    assert partition(image)[3:7] == ((1, 4, 2), (1, 2), (2,), (4,))


def test_reassignments_that_cannot_be() -> None:
    image = with_topic((1, 2))
    assert reassign(image, 1, 9)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(image, 1, 1)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(image, 1, factor=False)[1] == ErrorCode.INVALID_REPLICATION_FACTOR
    unknown = decide_reassign(image, CONFIG, [Reassignment(TopicPartition("x", 0), [1])]).reply
    assert [outcome.error and outcome.error.code for outcome in unknown] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_reassignment_that_waited_for_a_broker_is_completed() -> None:
    image, _ = reassign(with_topic((1, 2, 3)), 2, 3)
    assert partition(image).replicas == (2, 3)
    assert decide_complete_reassignments(image).records == []


# -- balance, placement, features --------------------------------------------------------------------------------------


def test_leadership_goes_back_to_preferred_replicas_that_can_take_it() -> None:
    image = with_topic((1, 2), (1, 3))
    image = after(image, decide_fence_broker(image, CONFIG, 1))
    assert decide_balance_leaders(image).records == []
    image = after(image, decide_heartbeat(image, CONFIG, 1, 0, metadata_offset=99))
    image, _ = reported(image, change(image, 2, 1), node_id=2)
    decision = decide_balance_leaders(image)
    assert decision.reply == 1
    image = after(image, decision)
    assert [partition(image, index).leader for index in (0, 1)] == [1, 3]


def test_the_least_loaded_brokers_are_filled_first_and_racks_kept_apart() -> None:
    image = with_topic((1, 2), (2, 1), (1, 2), image=FOUR)
    assert place_on_least_loaded(image, 2, 2) == [(3, 4), (4, 3)]
    racked = cluster(broker(1, rack="a"), broker(2, rack="a"), broker(3, rack="b"))
    assert all({1, 2} != set(replicas) for replicas in place_on_least_loaded(racked, 6, 2))
    with pytest.raises(BrokerError):
        place_on_least_loaded(racked, 1, 4)

"""Brokers come and go: what is written, and what becomes of their partitions."""

from __future__ import annotations

import pytest
from tests.unit.metadata.images import broker, cluster, directory_id, replayed

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.brokers import (
    HeartbeatReply,
    Registration,
    can_be_spared,
    decide_fence_broker,
    decide_heartbeat,
    decide_lead_again,
    decide_leave_partitions,
    decide_register_broker,
    decide_unregister_broker,
)
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.elections import UNCLEAN, decide_elect_leaders
from tidelog.controller.core.sessions import BrokerSessions
from tidelog.metadata.features import BOOTSTRAP
from tidelog.metadata.image import Endpoint, MetadataImage, PartitionState
from tidelog.metadata.topics import partition_record
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.topic_record import TopicRecord

CONFIG = BrokerConfig()
THREE = cluster(broker(1), broker(2), broker(3))


def registration(node_id: int, incarnation: bytes = b"n" * 16, **rest: object) -> Registration:
    made = Registration(node_id, incarnation, (Endpoint("PLAINTEXT", "h", 9092),), (directory_id(node_id),))
    return made._replace(**rest)


def with_topic(*replicas: tuple[int, ...], image: MetadataImage = THREE, unclean: bool = False) -> MetadataImage:
    """A topic whose partitions lie there, all of them in sync."""
    name, topic_id = "t", b"t" * 16
    states = (PartitionState(nodes[0], 0, 0, nodes, nodes) for nodes in replicas)
    value = str(unclean).lower()
    return replayed(
        image,
        [
            TopicRecord(name=name, topic_id=topic_id),
            ConfigRecord(resource_type=2, resource_name=name, name="unclean.leader.election.enable", value=value),
            *(partition_record(topic_id, index, state) for index, state in enumerate(states)),
        ],
    )[0]


def after(image: MetadataImage, decision: Decision[object]) -> MetadataImage:
    return replayed(image, decision.records)[0]


def partition(image: MetadataImage, index: int = 0) -> PartitionState:
    return image.topics["t"].partitions[index]


def refusal(image: MetadataImage, wanted: Registration, *, has_session: bool = False) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        decide_register_broker(image, CONFIG, wanted, has_session=has_session)
    return raised.value.code


# -- registration ------------------------------------------------------------------------------------------------------


def test_the_first_broker_brings_the_features_and_every_one_begins_fenced() -> None:
    empty = MetadataImage(cluster_id="test")
    decision = decide_register_broker(empty, CONFIG, registration(1))
    image = after(empty, decision)
    assert image.features == BOOTSTRAP
    assert decision.reply == image.brokers[1].epoch == image.offset
    assert image.brokers[1].fenced
    second = decide_register_broker(image, CONFIG, registration(2))
    assert len(second.records) == 1
    assert second.reply > decision.reply


def test_a_second_node_with_the_id_of_a_living_one_is_refused() -> None:
    assert refusal(THREE, registration(2), has_session=True) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    image = after(THREE, decide_register_broker(THREE, CONFIG, registration(2), has_session=False))
    assert image.brokers[2].incarnation_id == b"n" * 16


def test_the_same_start_may_register_again_and_keeps_its_epoch() -> None:
    first = decide_register_broker(THREE, CONFIG, registration(2))
    image = after(THREE, first)
    again = decide_register_broker(image, CONFIG, registration(2), has_session=True)
    assert again == Decision([], first.reply)


def test_a_node_of_another_cluster_or_one_that_was_removed_is_refused() -> None:
    assert refusal(THREE, registration(4, cluster_id="other")) == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert refusal(THREE, registration(4, previous_epoch=7)) == ErrorCode.BROKER_ID_NOT_REGISTERED
    decide_register_broker(THREE, CONFIG, registration(4, cluster_id="test"))


def test_a_node_that_does_not_know_a_feature_in_use_is_refused() -> None:
    image = after(MetadataImage(cluster_id="test"), decide_register_broker(MetadataImage(), CONFIG, registration(1)))
    assert refusal(image, registration(2, features=(("metadata.version", 1, 5),))) == ErrorCode.UNSUPPORTED_VERSION


# -- loss and return ---------------------------------------------------------------------------------------------------


def test_a_fenced_broker_loses_leaderships_and_its_place_in_sync() -> None:
    image = with_topic((1, 2, 3), (2, 3, 1), (3,))
    lost = after(image, decide_fence_broker(image, CONFIG, 1))
    assert lost.brokers[1].fenced
    assert (partition(lost, 0).leader, partition(lost, 0).isr, partition(lost, 0).leader_epoch) == (2, (2, 3), 1)
    assert (partition(lost, 1).leader, partition(lost, 1).isr, partition(lost, 1).leader_epoch) == (2, (2, 3), 0)
    assert partition(lost, 2) == partition(image, 2)
    assert decide_fence_broker(lost, CONFIG, 1).records == []


def test_the_last_in_sync_replica_is_waited_for() -> None:
    image = with_topic((1, 2))
    image = after(image, decide_fence_broker(image, CONFIG, 2))
    image = after(image, decide_fence_broker(image, CONFIG, 1))
    assert (partition(image).leader, partition(image).isr) == (-1, (1,))
    # Broker 2 may not lead: it does not have what 1 wrote alone.
    image = after(image, decide_heartbeat(image, CONFIG, 2, 0, metadata_offset=99))
    assert (partition(image).leader, partition(image).isr) == (-1, (1,))
    image = after(image, decide_heartbeat(image, CONFIG, 1, 0, metadata_offset=99))
    assert (partition(image).leader, partition(image).isr) == (1, (1,))


def test_a_topic_may_prefer_a_leader_to_its_records() -> None:
    image = with_topic((1, 2), unclean=True)
    image = after(image, decide_fence_broker(image, CONFIG, 2))
    image = after(image, decide_fence_broker(image, CONFIG, 1))
    image = after(image, decide_heartbeat(image, CONFIG, 2, 0, metadata_offset=99))
    state = partition(image)
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)


def test_registering_anew_gives_up_what_the_former_start_led() -> None:
    image = with_topic((1, 2))
    image = after(image, decide_register_broker(image, CONFIG, registration(1)))
    assert (partition(image).leader, partition(image).isr) == (2, (2,))


def on_disks(image: MetadataImage, *node_ids: int) -> MetadataImage:
    """The partition knows which disks its replicas are on."""
    directories = [directory_id(node_id) for node_id in node_ids]
    change = PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, directories=directories)
    return replayed(image, [change])[0]


def last_in_sync_comes_back(directory: bytes, *, unclean: bool = False) -> MetadataImage:
    """Of replicas 1 and 2 only 1 is in sync; both were away, and 1 is back with this disk."""
    image = on_disks(with_topic((1, 2), unclean=unclean), 1, 2)
    image = after(image, decide_fence_broker(image, CONFIG, 2))
    image = after(image, decide_register_broker(image, CONFIG, registration(1, directories=(directory,))))
    assert (partition(image).leader, partition(image).isr) == (-1, (1,))
    return after(image, decide_heartbeat(image, CONFIG, 1, image.brokers[1].epoch, metadata_offset=99))


def test_the_last_in_sync_leads_again_on_its_own_disk_only() -> None:
    assert partition(last_in_sync_comes_back(directory_id(1))).leader == 1
    assert partition(last_in_sync_comes_back(b"x" * 16)).leader == -1


def test_an_unclean_election_prefers_a_replica_that_has_its_disk() -> None:
    image = last_in_sync_comes_back(b"x" * 16)
    image = after(image, decide_heartbeat(image, CONFIG, 2, 0, metadata_offset=99))
    assert (partition(image).leader, partition(image).isr) == (-1, (1,))
    image = after(image, decide_elect_leaders(image, UNCLEAN, [TopicPartition("t", 0)]))
    state = partition(image)
    assert (state.leader, state.isr, state.directories) == (2, (2,), (b"x" * 16, directory_id(2)))


def test_a_topic_that_may_lose_records_is_led_from_a_new_disk_when_there_is_no_other() -> None:
    state = partition(last_in_sync_comes_back(b"x" * 16, unclean=True))
    assert (state.leader, state.isr, state.directories) == (1, (1,), (b"x" * 16, directory_id(2)))


def test_the_only_replica_there_is_begins_anew_on_a_new_disk() -> None:
    image = on_disks(with_topic((1,)), 1)
    image = after(image, decide_register_broker(image, CONFIG, registration(1, directories=(b"x" * 16,))))
    image = after(image, decide_heartbeat(image, CONFIG, 1, image.brokers[1].epoch, metadata_offset=99))
    state = partition(image)
    assert (state.leader, state.isr, state.directories) == (1, (1,), (b"x" * 16,))


def test_a_node_can_be_spared_when_others_in_sync_can_lead() -> None:
    assert can_be_spared(with_topic((1, 2), (3,)), 1)
    assert can_be_spared(with_topic((2, 1)), 1)
    assert not can_be_spared(with_topic((1, 2), (1,)), 1)
    image = with_topic((1, 2))
    assert not can_be_spared(after(image, decide_fence_broker(image, CONFIG, 2)), 1)


def test_work_left_over_is_found_by_whoever_is_controller() -> None:
    image = with_topic((1, 2), (2, 1))
    only_fenced = replayed(image, decide_fence_broker(image, CONFIG, 1).records[:1])[0]
    swept = decide_leave_partitions(only_fenced, CONFIG)
    assert swept.reply
    image = after(only_fenced, swept)
    assert [partition(image, index).isr for index in (0, 1)] == [(2,), (2,)]
    assert decide_leave_partitions(image, CONFIG) == Decision([], False)
    assert decide_lead_again(image, CONFIG) == Decision([], False)


# -- heartbeats --------------------------------------------------------------------------------------------------------


def test_a_broker_works_once_it_has_seen_its_registration() -> None:
    image = cluster(broker(1), broker(2, fenced=True, epoch=5))
    behind = decide_heartbeat(image, CONFIG, 2, 5, metadata_offset=4)
    assert behind == Decision([], HeartbeatReply(False, True, False))
    there = decide_heartbeat(image, CONFIG, 2, 5, metadata_offset=5)
    assert there.reply == HeartbeatReply(True, False, False)
    assert not after(image, there).brokers[2].fenced


def test_a_broker_that_was_registered_anew_is_told_so() -> None:
    for node_id, code in ((1, ErrorCode.STALE_BROKER_EPOCH), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)):
        with pytest.raises(BrokerError) as raised:
            decide_heartbeat(THREE, CONFIG, node_id, 3, metadata_offset=9)
        assert raised.value.code == code


def test_a_controlled_shutdown_hands_over_first() -> None:
    image = with_topic((1, 2, 3), (1,))
    first = decide_heartbeat(image, CONFIG, 1, 0, metadata_offset=9, want_shut_down=True)
    assert not first.reply.should_shut_down
    image = after(image, first)
    assert image.brokers[1].in_controlled_shutdown
    assert partition(image, 0).leader == 2
    assert (partition(image, 1).leader, partition(image, 1).isr) == (-1, (1,))
    second = decide_heartbeat(image, CONFIG, 1, 0, metadata_offset=9, want_shut_down=True)
    assert second.reply == HeartbeatReply(True, True, True)
    assert after(image, second).brokers[1].fenced


def test_an_unregistered_broker_is_gone() -> None:
    image = with_topic((1, 2))
    image = after(image, decide_unregister_broker(image, CONFIG, 1))
    assert 1 not in image.brokers
    assert (partition(image).leader, partition(image).isr) == (2, (2,))
    with pytest.raises(BrokerError) as raised:
        decide_unregister_broker(image, CONFIG, 1)
    assert raised.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_silence_ends_a_session_and_suspicion_shortens_it() -> None:
    sessions = BrokerSessions(2000)
    sessions.begin([1, 2], 0)
    assert sessions.silent(1999) == []
    sessions.heard_from(1, 1500)
    assert (sessions.silent(2000), sessions.deadline_ms()) == ([2], 2000)
    sessions.forget(2)
    assert sessions.is_alive(1, 3400)
    sessions.suspect(1, 1600, 500)
    sessions.suspect(7, 1600, 500)
    assert sessions.deadline_ms() == 2100
    assert not sessions.is_alive(1, 2100)
    assert not sessions.is_alive(2, 2100)


def test_who_was_heard_after_what_speaks_against_it_is_not_suspected() -> None:
    sessions = BrokerSessions(2000)
    sessions.begin([1, 2], 0)
    sessions.heard_from(1, 20)
    for node_id in (1, 2):
        sessions.suspect(node_id, 30, 100, since_ms=10)
    assert sessions.silent(200) == [2]
    sessions.suspect(1, 40, 100, since_ms=20)
    assert sessions.silent(200) == [1, 2]

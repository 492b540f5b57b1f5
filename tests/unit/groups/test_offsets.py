"""Committing, fetching, deleting and expiring offsets."""

from __future__ import annotations

import sys

import pytest
from tests.unit.groups.driver import SESSION_MS, START_WALL_MS, ShardDriver, subscription

from tidelog.groups.core.messages import DeleteOffsets, FetchedOffset, FetchOffsets, OffsetToCommit
from tidelog.groups.core.records import CommittedOffset, GroupMetadataRecord, OffsetCommitRecord
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import BrokerError, ErrorCode

NONE = ErrorCode.NONE
RETENTION_MS = 1_000_000
CHECK_MS = 100_000
ID_1, ID_2 = b"1" * 16, b"2" * 16


def at(offset: int, partition: int = 0, topic: str = "t") -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset)


def code_of(driver: ShardDriver, **options: object) -> ErrorCode:
    with pytest.raises(BrokerError) as caught:
        driver.commit(at(1), **options)  # type: ignore[arg-type]
    return caught.value.code


def retaining() -> ShardDriver:
    return ShardDriver(
        GroupSettings(
            initial_rebalance_delay_ms=1,
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
    )


# -- commit and fetch -------------------------------------------------------------------------------------------------


def test_a_commit_is_one_batch_and_can_be_fetched() -> None:
    driver = ShardDriver()
    driver.ticks_ms = 7
    given = OffsetToCommit("t", 1, 42, 3, "note")
    assert driver.commit(given, at(5, partition=2)) == [NONE, NONE]
    assert driver.batches == [
        [
            OffsetCommitRecord("g", "t", 1, CommittedOffset(42, 3, "note", START_WALL_MS + 7)),
            OffsetCommitRecord("g", "t", 2, CommittedOffset(5, -1, "", START_WALL_MS + 7)),
        ]
    ]
    assert driver.fetch("t", 1) == FetchedOffset(1, 42, 3, "note")
    assert driver.fetch("t", 3) == FetchedOffset(3, -1, -1, "")
    assert driver.fetch("t", 1, group="other") == FetchedOffset(1, -1, -1, "")
    driver.crash()
    assert driver.fetch("t", 1) == FetchedOffset(1, 42, 3, "note")


def test_a_group_that_only_commits_exists_and_is_empty() -> None:
    driver = ShardDriver()
    driver.commit(at(1))
    assert driver.state() == "Empty"
    driver.crash()
    assert driver.state() == "Empty"


def test_all_offsets_of_a_group_without_naming_them() -> None:
    driver = ShardDriver()
    driver.commit(at(1), at(2, 1), at(3, topic="u"))
    topics = driver.perform(driver.shard.fetch_offsets(FetchOffsets("g", None), driver.now))
    assert [(topic, [(o.partition, o.offset) for o in found]) for topic, _, found in topics] == [
        ("t", [(0, 1), (1, 2)]),
        ("u", [(0, 3)]),
    ]
    assert driver.perform(driver.shard.fetch_offsets(FetchOffsets("nobody", None), driver.now)) == []


def test_metadata_up_to_the_limit_and_not_beyond() -> None:
    driver = ShardDriver(GroupSettings(offset_metadata_max_bytes=10))
    ten, eleven = OffsetToCommit("t", 0, 1, -1, "x" * 10), OffsetToCommit("t", 1, 1, -1, "x" * 11)
    assert driver.commit(ten, eleven) == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert driver.fetch("t", 0).metadata == "x" * 10
    assert driver.fetch("t", 1).offset == -1
    assert driver.commit(eleven) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert len(driver.batches) == 1, "nothing to write, nothing written"


def test_metadata_that_no_record_can_hold_is_too_large_whatever_the_setting() -> None:
    driver = ShardDriver(GroupSettings(offset_metadata_max_bytes=1_000_000))
    fits, too_large = OffsetToCommit("t", 0, 1, -1, "x" * 32767), OffsetToCommit("t", 0, 1, -1, "é" * 16384)
    assert driver.commit(fits, too_large) == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_an_offset_belongs_to_the_topic_id_it_was_committed_for() -> None:
    driver = ShardDriver()
    driver.commit(OffsetToCommit("t", 0, 5, topic_id=ID_1))
    assert driver.fetch("t", 0, topic_id=ID_1).offset == 5
    assert driver.fetch("t", 0, topic_id=ID_2).offset == -1, "the topic was created anew since"
    assert driver.fetch("t", 0).offset == 5, "asked by name"
    driver.crash()
    assert driver.fetch("t", 0, topic_id=ID_2).offset == -1
    driver.commit(at(6))
    assert driver.fetch("t", 0, topic_id=ID_2).offset == 6, "committed by name"


# -- who may commit ---------------------------------------------------------------------------------------------------


def test_members_commit_in_their_generation_only() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    assert driver.commit(at(1), member_id=member, generation=1) == [NONE]
    assert code_of(driver, member_id=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert code_of(driver, member_id=member, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert code_of(driver, member_id=member, generation=-1) is ErrorCode.ILLEGAL_GENERATION
    assert code_of(driver, member_id="stranger", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(driver, member_id="", generation=-1) is ErrorCode.UNKNOWN_MEMBER_ID, "the group has members"
    assert code_of(driver, member_id=member, generation=1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_group_that_does_not_exist() -> None:
    driver = ShardDriver()
    assert code_of(driver, member_id="m", generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(driver, member_id="m", generation=1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert driver.state() == "missing"


def test_a_stale_member_cannot_commit_to_a_group_that_is_empty_now() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    driver.leave(member)
    assert code_of(driver, member_id=member, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(at(3)) == [NONE], "a tool can"


def test_commits_while_a_round_is_under_way() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    _newcomer, _ = driver.join_known()
    assert driver.state() == "PreparingRebalance"
    assert driver.commit(at(1), member_id=member, generation=1) == [NONE], "the old generation finishes its work"
    driver.send_join(member)
    assert driver.state() == "CompletingRebalance"
    assert code_of(driver, member_id=member, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert code_of(driver, member_id=member, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        driver.commit(at(1), member_id=member, generation=1)
    assert driver.state() == "Stable"


# -- delete -----------------------------------------------------------------------------------------------------------


def delete(driver: ShardDriver, *topics: tuple[str, list[int]]) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
    return driver.perform(driver.shard.decide_delete_offsets(DeleteOffsets("g", topics), driver.now))


def test_deleted_offsets_are_gone() -> None:
    driver = ShardDriver()
    driver.commit(at(1), at(2, 1))
    assert delete(driver, ("t", [0, 0, 9])) == [("t", [(0, NONE), (0, NONE), (9, NONE)])]
    assert driver.batches[-1] == [OffsetCommitRecord("g", "t", 0, None)]
    assert driver.fetch("t", 0).offset == -1
    assert driver.fetch("t", 1).offset == 2
    driver.crash()
    assert driver.fetch("t", 0).offset == -1


def test_offsets_of_topics_the_group_reads_cannot_be_deleted() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group(protocols=[("range", subscription("t"))])
    driver.commit(at(1), at(2, topic="left"), member_id=member, generation=1)
    assert delete(driver, ("t", [0]), ("left", [0])) == [
        ("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]),
        ("left", [(0, NONE)]),
    ]
    assert driver.fetch("t", 0).offset == 1
    assert driver.fetch("left", 0).offset == -1


def test_deleting_offsets_of_groups_that_do_not_allow_it() -> None:
    driver = ShardDriver()
    with pytest.raises(BrokerError) as caught:
        delete(driver, ("t", [0]))
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.form_group(protocol_type="connect")
    with pytest.raises(BrokerError) as caught:
        delete(driver, ("t", [0]))
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_die_with_their_topic() -> None:
    driver = ShardDriver()
    driver.commit(at(1), at(2, 1), at(3, topic="stays"))
    driver.commit(at(1), group="h")
    delete_topics(driver, "t")
    assert driver.fetch("t", 0).offset == driver.fetch("t", 0, group="h").offset == -1
    assert driver.fetch("stays", 0).offset == 3


def delete_topics(driver: ShardDriver, *topics: str) -> None:
    rest = driver.shard.offsets.group_ids()
    while rest:
        rest = driver.perform(driver.shard.decide_topics_deleted((topics, rest), driver.now))


def commit_many(driver: ShardDriver, count: int, group: str = "g") -> None:
    for start in range(0, count, 1000):
        driver.commit(*(at(1, partition) for partition in range(start, min(count, start + 1000))), group=group)


def test_more_offsets_than_a_batch_holds_die_with_their_topic() -> None:
    driver = ShardDriver()
    long_name = "g" * 1000
    commit_many(driver, 2000, long_name)
    for number in range(3000):
        driver.commit(at(1), group=f"g-{number}")
    driver.commit(at(3, topic="stays"), group=long_name)
    delete_topics(driver, "t")
    assert driver.shard.offsets.group_ids() == [long_name]
    assert len(driver.shard.offsets) == 1


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_consumer_expire_after_their_commit_and_the_group_with_them() -> None:
    driver = retaining()
    driver.commit(at(1))
    driver.advance(CHECK_MS * 5)
    driver.commit(at(2, 1))
    driver.advance(CHECK_MS * 5)
    assert driver.fetch("t", 0).offset == -1
    assert driver.fetch("t", 1).offset == 2
    driver.advance(CHECK_MS * 5)
    assert driver.state() == "missing"
    assert driver.batches[-1] == [OffsetCommitRecord("g", "t", 1, None), GroupMetadataRecord("g", None)]
    driver.crash()
    assert driver.state() == "missing"


def test_more_offsets_than_a_batch_holds_expire_and_their_group_goes_with_the_last() -> None:
    driver = retaining()
    long_name = "g" * 1000
    commit_many(driver, 2000, long_name)
    for number in range(3000):
        driver.commit(at(1), group=f"g-{number}")
    driver.advance(RETENTION_MS)
    assert len(driver.shard.offsets) == 0
    assert not driver.shard.groups
    assert not driver.replayed().groups
    ends = [at for at, batch in enumerate(driver.batches) if GroupMetadataRecord(long_name, None) in batch]
    last = [at for at, batch in enumerate(driver.batches) if any(r.group_id == long_name for r in batch)][-1]
    assert ends == [last]


def test_a_clean_up_that_cannot_be_written_is_tried_at_the_next_interval() -> None:
    driver = retaining()
    driver.commit(at(1))
    driver.append_error = ErrorCode.NOT_COORDINATOR
    driver.advance(RETENTION_MS)
    assert driver.fetch("t", 0).offset == 1
    driver.append_error = None
    driver.advance(CHECK_MS - 1)
    assert driver.fetch("t", 0).offset == 1
    driver.advance(1)
    assert driver.fetch("t", 0).offset == -1


def test_the_time_of_a_group_with_members_begins_when_it_is_empty() -> None:
    driver = retaining()
    (member,) = driver.form_group(protocols=[("range", subscription("t"))], session_ms=2 * RETENTION_MS)
    driver.commit(at(1), member_id=member, generation=1)
    driver.advance(CHECK_MS * 15)
    assert driver.fetch("t", 0).offset == 1, "it is read, so it is kept"
    driver.leave(member)
    driver.advance(RETENTION_MS - 1)
    assert driver.fetch("t", 0).offset == 1
    driver.advance(CHECK_MS)
    assert driver.fetch("t", 0).offset == -1
    assert driver.state() == "missing"


def test_a_stable_group_loses_offsets_of_topics_it_left() -> None:
    driver = retaining()
    (member,) = driver.form_group(protocols=[("range", subscription("t"))], session_ms=2 * RETENTION_MS)
    driver.commit(at(1), at(2, topic="left"), member_id=member, generation=1)
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.fetch("left", 0).offset == -1
    assert driver.fetch("t", 0).offset == 1
    assert driver.state() == "Stable"


@pytest.mark.parametrize("protocols", [[("range", b"garbage")], [("range", b"")]])
def test_a_group_whose_topics_are_unknown_keeps_its_offsets(protocols: list[tuple[str, bytes]]) -> None:
    driver = retaining()
    (member,) = driver.form_group(protocols=protocols, session_ms=2 * RETENTION_MS)
    driver.commit(at(1), member_id=member, generation=1)
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.fetch("t", 0).offset == 1


def test_a_retention_of_their_own_wins() -> None:
    driver = retaining()
    driver.commit(at(1), retention_ms=CHECK_MS // 2)
    driver.commit(at(2, 1), retention_ms=RETENTION_MS * 2)
    driver.advance(CHECK_MS)
    assert driver.fetch("t", 0).offset == -1
    driver.crash()
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.fetch("t", 1).offset == 2
    driver.advance(RETENTION_MS)
    assert driver.fetch("t", 1).offset == -1


def test_a_retention_without_end() -> None:
    driver = retaining()
    assert driver.commit(at(1), retention_ms=2**63 - 1) == [NONE]
    driver.crash()
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.fetch("t", 0).offset == 1


def test_subscriptions_are_not_kept_once_they_are_read() -> None:
    """They come from clients and may be large."""
    driver = ShardDriver()
    large = subscription(*(f"topic-{number}" for number in range(1000)))
    references = sys.getrefcount(large)
    (member,) = driver.form_group(protocols=[("range", large)])
    assert driver.shard.groups["g"].is_subscribed_to("topic-999")
    driver.leave(member)
    driver.batches.clear()
    driver.replies.clear()
    assert sys.getrefcount(large) == references


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    driver = retaining()
    (member,) = driver.form_group()
    driver.leave(member)
    driver.advance(CHECK_MS)
    assert driver.state() == "missing"

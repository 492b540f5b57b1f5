"""Listing, describing and deleting groups; loading and unloading a shard."""

from __future__ import annotations

from tests.unit.groups.driver import ShardDriver

from tidelog.groups.core.messages import DescribedGroup, DescribedMember, Joined, ListedGroup, OffsetToCommit, Synced
from tidelog.groups.core.records import GroupMetadataRecord, OffsetCommitRecord
from tidelog.model.errors import ErrorCode


def listed(driver: ShardDriver, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, ListedGroup]:
    groups = driver.perform(driver.shard.list_groups((states, types), driver.now))
    return {group.group_id: group for group in groups}


def describe(driver: ShardDriver, group_id: str = "g") -> DescribedGroup:
    return driver.perform(driver.shard.describe_groups([group_id], driver.now))[0]


def test_groups_are_listed_by_state_and_type() -> None:
    driver = ShardDriver()
    driver.form_group(group="stable")
    driver.commit(OffsetToCommit("t", 0, 1), group="simple")
    assert listed(driver) == {
        "stable": ListedGroup("stable", "consumer", "Stable", "classic"),
        "simple": ListedGroup("simple", "", "Empty", "classic"),
    }
    assert list(listed(driver, states=("STABLE", " empty "))) == ["stable", "simple"]
    assert list(listed(driver, states=("stable",))) == ["stable"]
    assert list(listed(driver, states=("Dead",))) == []
    assert list(listed(driver, types=("Classic",))) == ["stable", "simple"]
    assert list(listed(driver, types=("consumer",))) == []
    assert list(listed(driver, states=("stable",), types=("consumer", "classic"))) == ["stable"]


def test_a_stable_group_is_described_with_metadata_and_assignment() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group(protocols=[("range", b"meta")])
    assert describe(driver) == DescribedGroup(
        "g",
        "Stable",
        protocol_type="consumer",
        protocol="range",
        members=[DescribedMember(member, None, "client", "/127.0.0.1", b"meta", b"a0")],
    )


def test_a_group_in_a_round_is_described_without_metadata_and_with_the_last_assignment() -> None:
    driver = ShardDriver()
    (_member,) = driver.form_group(protocols=[("range", b"meta")])
    driver.join_known(protocols=[("range", b"meta")])
    described = describe(driver)
    assert (described.state, described.protocol, described.protocol_type) == ("PreparingRebalance", "", "consumer")
    assert [(m.metadata, m.assignment) for m in described.members] == [(b"", b"a0"), (b"", b"")]


def test_an_unknown_group_is_dead() -> None:
    described = describe(ShardDriver(), "nobody")
    assert (described.state, described.error) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


def test_only_groups_without_members_are_deleted_and_their_offsets_with_them() -> None:
    driver = ShardDriver()
    driver.form_group(group="busy")
    driver.commit(OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1), group="idle")
    results = driver.perform(driver.shard.decide_delete_groups(["busy", "idle", "nobody"], driver.now))
    assert results == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("idle", ErrorCode.NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert driver.batches[-1] == [
        OffsetCommitRecord("idle", "t", 0, None),
        OffsetCommitRecord("idle", "t", 1, None),
        GroupMetadataRecord("idle", None),
    ]
    assert list(listed(driver)) == ["busy"]
    driver.crash()
    assert list(listed(driver)) == ["busy"]
    assert driver.fetch("t", 0, group="idle").offset == -1


def test_an_id_handed_out_by_a_deleted_group_is_worth_nothing() -> None:
    driver = ShardDriver()
    driver.commit(OffsetToCommit("t", 0, 1))
    _, reply = driver.send_join()
    assert reply is not None
    driver.perform(driver.shard.decide_delete_groups(["g"], driver.now))
    assert driver.send_join(reply.member_id)[1] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, reply.member_id)
    driver.advance(10_000_000)


def test_a_group_formed_after_deletion_starts_from_nothing() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    driver.leave(member)
    driver.perform(driver.shard.decide_delete_groups(["g"], driver.now))
    driver.form_group()
    assert driver.generation() == 1


def test_unloading_answers_whoever_is_parked() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group(group="joining")
    newcomer, join_token = driver.join_known(group="joining")
    ids = [driver.join_known(group="syncing")[0] for _ in range(2)]
    driver.advance(2)
    sync_token, _ = driver.send_sync(ids[1], 1, group="syncing")
    driver.perform(driver.shard.decide_unloaded())
    assert driver.replies[join_token] == Joined(ErrorCode.NOT_COORDINATOR, newcomer)
    assert driver.replies[sync_token] == Synced(ErrorCode.NOT_COORDINATOR)
    assert member != newcomer

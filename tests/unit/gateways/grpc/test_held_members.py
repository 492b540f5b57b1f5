from __future__ import annotations

from tidelog.gateways.coordinator import AsMember
from tidelog.gateways.grpc.held_members import HeldMember, HeldMembers


def member(member_id: str, generation: int = 1, instance_id: str | None = None) -> HeldMember:
    return HeldMember("g", AsMember(member_id, generation, instance_id), ["t"])


def test_the_owner_of_a_partition_is_the_last_that_was_given_it() -> None:
    held = HeldMembers()
    first, second = member("1"), member("2")
    for each in (first, second):
        held.hold(each)
    held.assign(first, {"t": [0, 1]})
    held.assign(second, {"t": [1]})
    assert [held.owner("g", "t", partition) for partition in (0, 1, 2)] == [first, second, None]
    assert held.owner("other", "t", 0) is None
    held.drop("g", "1")
    assert (held.owner("g", "t", 0), held.owner("g", "t", 1)) == (None, second)


def test_a_new_generation_owns_nothing_yet() -> None:
    held = HeldMembers()
    held.hold(member("1"))
    held.assign(held.find("g", "1") or member(""), {"t": [0]})
    held.hold(member("1", generation=2))
    assert held.owner("g", "t", 0) is None
    found = held.find("g", "1")
    assert found is not None
    assert found.name.epoch == 2


def test_members_with_a_name_are_found_by_it() -> None:
    held = HeldMembers()
    held.hold(member("1", instance_id="name"))
    assert held.find("g", "1") is None
    assert held.find("g", "name") is not None


def test_the_longest_silent_is_forgotten() -> None:
    held = HeldMembers(members_max=2)
    for member_id in ("1", "2"):
        held.hold(member(member_id))
    found = held.find("g", "1")
    assert found is not None
    held.assign(found, {"t": [0]})
    held.hold(member("3"))
    assert [held.find("g", each) is not None for each in "123"] == [True, False, True]
    held.owner("g", "t", 0)
    held.hold(member("4"))
    assert len(held) == 2
    assert held.owner("g", "t", 0) is found

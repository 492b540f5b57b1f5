"""The bytes that a node may hold, and the share of one connection."""

from tidelog.net.budget import BudgetShare, ByteBudget, PartOfBudget


class Reader:
    def __init__(self) -> None:
        self.resumed = 0

    def resume_from_budget(self) -> None:
        self.resumed += 1


def test_a_share_is_spent_by_its_own_limit_or_that_of_the_node() -> None:
    budget = ByteBudget(100)
    small, large = BudgetShare(budget, 10), BudgetShare(budget, 1000)
    small.charge(9)
    assert not small.is_spent
    small.charge(1)
    assert small.is_spent
    assert not large.is_spent
    large.charge(90)
    assert large.is_spent
    large.release(1)
    assert not large.is_spent


def test_a_closed_share_releases_everything_once() -> None:
    budget = ByteBudget(100)
    share, other = BudgetShare(budget, 100), BudgetShare(budget, 100)
    other.charge(5)
    share.charge(40)
    share.release(10)
    share.close()
    assert budget.used_bytes == 5
    share.release(30)
    share.close()
    assert budget.used_bytes == 5, "a late answer holds nothing any more"


def test_a_door_has_its_part_of_the_whole_and_no_more_than_is_left() -> None:
    whole = ByteBudget(100)
    part = PartOfBudget(whole, 25)
    part.charge(25)
    assert part.is_spent
    assert not whole.is_spent
    part.release(25)
    assert (whole.used_bytes, part.used_bytes) == (0, 0)
    whole.charge(100)
    assert part.is_spent


def test_readers_of_a_part_are_woken_when_the_whole_has_room_again() -> None:
    whole = ByteBudget(100)
    part = PartOfBudget(whole, 25)
    reader = Reader()
    whole.charge(100)
    part.wait(reader)
    whole.release(50)
    assert reader.resumed == 0
    part.wake()
    assert reader.resumed == 1

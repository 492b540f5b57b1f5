"""The bytes that a node may hold, and the share of one connection."""

from tidelog.net.budget import BudgetShare, ByteBudget


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

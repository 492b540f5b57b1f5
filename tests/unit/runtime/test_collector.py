import gc
import weakref
from collections.abc import Iterator

import pytest
from tests.waiting import eventually

from tidelog.runtime.collector import (
    ALL,
    GROWTH_MIN,
    PATIENCE_LOOKS,
    YOUNG,
    YOUNG_MAX,
    YOUNG_MIN,
    CollectionPolicy,
    Collector,
)


class Knot:
    """Something that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def untouched_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_little_is_left_alone() -> None:
    assert CollectionPolicy().choose(YOUNG_MIN - 1, is_quiet=True) is None


def test_what_is_new_is_collected_when_it_is_quiet() -> None:
    policy = CollectionPolicy()
    assert policy.choose(YOUNG_MIN, is_quiet=False) is None
    assert policy.choose(YOUNG_MIN, is_quiet=True) == YOUNG


def test_a_node_that_is_never_quiet_is_collected_all_the_same() -> None:
    policy = CollectionPolicy()
    chosen = [policy.choose(YOUNG_MIN, is_quiet=False) for _ in range(2 * (PATIENCE_LOOKS[YOUNG] + 1))]
    assert chosen == 2 * [*PATIENCE_LOOKS[YOUNG] * [None], YOUNG]


def test_patience_begins_anew_when_there_was_nothing_to_do() -> None:
    policy = CollectionPolicy()
    for _ in range(PATIENCE_LOOKS[YOUNG]):
        assert policy.choose(YOUNG_MIN, is_quiet=False) is None
    assert policy.choose(0, is_quiet=False) is None
    assert policy.choose(YOUNG_MIN, is_quiet=False) is None


def test_everything_is_collected_when_much_has_come() -> None:
    policy = CollectionPolicy()
    assert policy.choose(GROWTH_MIN - YOUNG_MIN, is_quiet=True) == YOUNG
    assert policy.choose(YOUNG_MIN, is_quiet=True) == ALL
    policy.all_collected(4 * GROWTH_MIN)
    assert policy.choose(GROWTH_MIN, is_quiet=True) == YOUNG, "half of what there was has to come"
    assert policy.choose(GROWTH_MIN, is_quiet=True) == ALL


def test_while_it_is_busy_only_what_is_new_is_collected_for_a_while() -> None:
    policy = CollectionPolicy()
    chosen = [policy.choose(GROWTH_MIN, is_quiet=False) for _ in range(PATIENCE_LOOKS[ALL] + 1)]
    assert chosen[PATIENCE_LOOKS[YOUNG]] == YOUNG
    assert chosen.index(ALL) == PATIENCE_LOOKS[ALL]


async def freed(knot: "weakref.ref[Knot]") -> None:
    await eventually(lambda: knot() is None, "the knot is collected")


@pytest.mark.usefixtures("untouched_collector")
async def test_garbage_goes_while_the_loop_runs() -> None:
    collector = Collector(look_s=0.005, cpu_s=lambda: 0.0)
    collector.start()
    knots = [Knot() for _ in range(2 * YOUNG_MIN)]
    knot = weakref.ref(knots[0])
    knots.clear()
    await freed(knot)


@pytest.mark.usefixtures("untouched_collector")
async def test_a_burst_is_not_collected() -> None:
    burst_s = 0.0

    def busy() -> float:
        nonlocal burst_s
        burst_s += 1.0
        return burst_s

    before = [generation["collections"] for generation in gc.get_stats()]
    collector = Collector(look_s=0.001, cpu_s=busy)
    collector.start()
    kept = [Knot() for _ in range(YOUNG_MAX // 2)]
    for _ in range(PATIENCE_LOOKS[YOUNG] // 2):
        collector.look()
    assert [generation["collections"] for generation in gc.get_stats()] == before
    assert len(kept) == YOUNG_MAX // 2

from __future__ import annotations

import pytest

from tidelog.gateways.access import LeaderElsewhere
from tidelog.gateways.grpc import reaching
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.model.errors import BrokerError, ErrorCode


class Access:
    node_id = 1


class Cluster:
    """Gives one answer after the other, and notes who was asked."""

    def __init__(self, *answers: BrokerError | str) -> None:
        self.answers = list(answers)
        self.asked: list[int | None] = []

    async def ask(self, at: int | None) -> str:
        self.asked.append(at)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer


def elsewhere(leader: int | None) -> LeaderElsewhere:
    return LeaderElsewhere("t", 0, leader)


TIMED_OUT = BrokerError(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "PAUSES_S", (0.0, 0.0, 0.0))


async def reach(cluster: Cluster, *, repeats: bool = True) -> str:
    return await at_leader(Access(), cluster.ask, repeats=repeats)  # type: ignore[arg-type]


async def test_the_leader_is_asked() -> None:
    cluster = Cluster(elsewhere(3), "done")
    assert await reach(cluster) == "done"
    assert cluster.asked == [None, 3]


async def test_a_leader_that_does_not_know_it_yet_is_asked_again() -> None:
    cluster = Cluster(elsewhere(3), elsewhere(3), elsewhere(2), "done")
    assert await reach(cluster) == "done"
    assert cluster.asked == [None, 3, None, 2]


async def test_nobody_leads() -> None:
    cluster = Cluster(*[elsewhere(None)] * 4)
    with pytest.raises(LeaderElsewhere):
        await reach(cluster)
    assert cluster.asked == [None] * 4


async def test_an_append_without_an_answer_is_not_repeated() -> None:
    cluster = Cluster(elsewhere(3), TIMED_OUT, "done")
    with pytest.raises(BrokerError, match=TIMED_OUT.message):
        await reach(cluster, repeats=False)
    assert cluster.asked == [None, 3]
    assert await reach(Cluster(elsewhere(3), TIMED_OUT, "done")) == "done"


async def test_a_leader_that_has_not_heard_of_the_topic_yet() -> None:
    unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster = Cluster(elsewhere(3), unknown, elsewhere(3), "done")
    assert await reach(cluster, repeats=False) == "done"
    with pytest.raises(BrokerError):
        await reach(Cluster(unknown, "done"))


async def test_other_errors_are_told_at_once() -> None:
    cluster = Cluster(BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE), "done")
    with pytest.raises(BrokerError):
        await reach(cluster)
    assert cluster.asked == [None]

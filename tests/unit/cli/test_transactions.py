"""`tidelog transactions` and coordinators that move; what else it does is tested on real nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest

from tidelog.cli import transactions
from tidelog.cli.errors import CommandError
from tidelog.cli.wire import BrokerConnection
from tidelog.model.errors import ErrorCode

CONNECTION = cast("BrokerConnection", object())


def coordinators(names: list[str]) -> Callable[[object, str], AbstractContextManager[Any]]:
    """One after the other is found; the last one from then on."""
    return lambda _connection, _id: nullcontext(names.pop(0) if len(names) > 1 else names[0])


@pytest.mark.parametrize("code", transactions.NOT_YET)
def test_a_coordinator_that_moved_or_is_busy_is_looked_for_and_asked_again(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "BUSY_SECONDS", 0)
    monkeypatch.setattr(transactions, "find_coordinator", coordinators(["the old one", "the new one"]))

    def ask(coordinator: BrokerConnection, _transactional_id: str) -> str:
        told = str(coordinator)
        if told == "the old one":
            transactions.check_answer(code, "cannot abort id")
        return told

    assert transactions.at_coordinator(CONNECTION, "id", ask, 10) == "the new one"


def test_one_that_stays_busy_is_given_up_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "BUSY_SECONDS", 0)
    monkeypatch.setattr(transactions, "find_coordinator", coordinators(["busy"]))

    def ask(_coordinator: BrokerConnection, _transactional_id: str) -> None:
        transactions.check_answer(ErrorCode.CONCURRENT_TRANSACTIONS, "cannot abort id")

    with pytest.raises(CommandError, match="cannot abort id: CONCURRENT_TRANSACTIONS"):
        transactions.at_coordinator(CONNECTION, "id", ask, 0.01)

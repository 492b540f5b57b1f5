"""Producer ids: what a producer is answered while the controller is away."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidelog.controller.core.producer_ids import ProducerIdBlock
from tidelog.controller.producer_ids import ProducerIds
from tidelog.model.errors import BrokerError, ErrorCode


class Away:
    """A controller that answers when `block` is set."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code
        self.block: ProducerIdBlock | None = None

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        if self.block is None:
            raise BrokerError(self._code)
        return self.block


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH])
async def test_producers_are_asked_to_come_back(code: ErrorCode) -> None:
    controller = Away(code)
    ids = ProducerIds(cast(Any, controller))
    with pytest.raises(BrokerError) as caught:
        await ids.next_id()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    controller.block = ProducerIdBlock(1000, 2)
    assert [await ids.next_id(), await ids.next_id()] == [1000, 1001]

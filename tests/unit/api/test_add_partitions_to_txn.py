"""AddPartitionsToTxn: which partitions a client may add."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.unit.api.answering import ask, services_of

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_clients_add_no_internal_topics() -> None:
    topics = {name: SimpleNamespace(partitions={0: None}) for name in ("t", "__transaction_state")}
    services = services_of(metadata=SimpleNamespace(image=SimpleNamespace(topics=topics)))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="orders",
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "__transaction_state", "none")
        ],
    )
    response = await ask(services, request, 3)
    codes = [topic.results_by_partition[0].partition_error_code for topic in response.results_by_topic_v3_and_below]
    assert codes == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]

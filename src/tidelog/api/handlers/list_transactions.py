"""ListTransactions: the transactional ids this node coordinates, by state, producer id, duration and name."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.groups.core.consumer.patterns import compile_pattern
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from tidelog.transactions.core import state
from tidelog.transactions.core.messages import Filters

KNOWN_STATES = frozenset(known.value for known in state.TransactionState)


async def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    states = dict.fromkeys(request.state_filters)
    unknown = [name for name in states if name not in KNOWN_STATES]
    if unknown and len(unknown) == len(states):
        # Filters that nothing can match: none is not the same as all.
        return ListTransactionsResponse(unknown_state_filters=unknown)
    filters = Filters(
        states=frozenset(states) - frozenset(unknown),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
    )
    try:
        matches = (
            compile_pattern(request.transactional_id_pattern).fullmatch if request.transactional_id_pattern else None
        )
        listed = await context.services.transactions.list_transactions(filters)
    except BrokerError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=unknown)
    hidden = denied(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, (name for name, _ in listed))
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=name, producer_id=metadata.producer_id, transaction_state=metadata.state.value
            )
            for name, metadata in listed
            if name not in hidden and (matches is None or matches(name) is not None)
        ],
    )

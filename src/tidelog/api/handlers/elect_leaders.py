"""ElectLeaders: preferred and unclean elections an operator asks for."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.elections import PREFERRED, UNCLEAN, ElectionOutcome
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    asked = (
        None
        if request.topic_partitions is None
        else [TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    )
    # Version 0 knows preferred elections only.
    election_type = request.election_type if context.version >= 1 else PREFERRED
    failure: BrokerError | None = None
    try:
        if election_type not in (PREFERRED, UNCLEAN):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
        outcomes = await context.services.controller.elect_leaders(election_type, asked)
    except BrokerError as error:
        failure = error
        outcomes = [ElectionOutcome(partition, error) for partition in asked or ()]
    results: dict[str, list[PartitionResult]] = {}
    if asked is None:
        # Kafka names every topic, and under it only the partitions there is something to say about.
        results = {name: [] for name in context.services.metadata.image.topics}
    for outcome in outcomes:
        results.setdefault(outcome.partition.topic, []).append(
            PartitionResult(
                partition_id=outcome.partition.partition,
                error_code=ErrorCode.NONE if outcome.error is None else outcome.error.code,
                error_message=None if outcome.error is None else outcome.error.message,
            )
        )
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if failure is None else failure.code,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=found) for topic, found in results.items()
        ],
    )

"""AddRaftVoter: a node of the cluster becomes a voter of the metadata quorum."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.raft.core.members import Member


async def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    services = context.services
    try:
        services.cluster.check_cluster_id(request.cluster_id)
        if not request.listeners:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include any endpoint.")
        listener = request.listeners[0]
        member = Member(request.voter_id, bytes(request.voter_directory_id), listener.host, listener.port)
        await services.controller.quorum.commands.add_voter(member, timeout_s=max(0.001, request.timeout_ms / 1000))
    except BrokerError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
    return AddRaftVoterResponse(error_message=None)

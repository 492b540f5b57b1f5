"""RemoveRaftVoter: a node leaves the metadata quorum; its partitions are not touched."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


async def handle(context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    services = context.services
    try:
        services.cluster.check_cluster_id(request.cluster_id)
        quorum = services.controller.quorum
        member = quorum.members.find(request.voter_id)
        if (
            member is None
            or not quorum.members.is_voter(request.voter_id)
            or not member.is_same_node(request.voter_id, bytes(request.voter_directory_id))
        ):
            raise BrokerError(
                ErrorCode.VOTER_NOT_FOUND, f"Node {request.voter_id} with this directory id is not a voter."
            )
        await quorum.commands.remove_member(request.voter_id)
    except BrokerError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    return RemoveRaftVoterResponse(error_message=None)

"""AlterReplicaLogDirs: a node has one log directory, so there is nowhere to move a replica to; every ask is refused."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    own = str(context.services.partitions.directory.path)
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                code = ErrorCode.NONE
                if directory.path != own:
                    code = ErrorCode.LOG_DIR_NOT_FOUND
                elif context.services.partitions.find_partition(topic.name, index) is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )

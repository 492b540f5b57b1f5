"""DescribeLogDirs: the one log directory of this node, its space, and how much each replica takes of it."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.partitions.partition import Partition
from tidelog.protocol.generated.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    table = context.services.partitions
    chosen: dict[str, list[Partition]] = {}
    if request.topics is None:
        for partition in table:
            chosen.setdefault(partition.topic, []).append(partition)
    else:
        for topic in request.topics:
            for index in topic.partitions:
                found = table.find_partition(topic.topic, index)
                if found is not None:
                    chosen.setdefault(topic.topic, []).append(found)
    directory = table.directory
    room = directory.system.disk.room_at(directory.path)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=str(directory.path),
                topics=[
                    DescribeLogDirsTopic(
                        name=name,
                        partitions=[
                            DescribeLogDirsPartition(
                                partition_index=partition.index,
                                partition_size=partition.log.size_bytes,
                                offset_lag=max(0, partition.log.log_end_offset - partition.high_watermark),
                            )
                            for partition in partitions
                        ],
                    )
                    for name, partitions in chosen.items()
                ],
                total_bytes=room.size_bytes,
                usable_bytes=room.free_bytes,
                is_cordoned=context.services.controller.image.is_cordoned(context.services.config.node_id),
            )
        ]
    )

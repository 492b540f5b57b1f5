"""Refusals of whole requests, for APIs whose responses have no error code for that in every version.

Every partition that was asked for bears the error instead, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.model.errors import BrokerError
from tidelog.protocol.generated import alter_replica_log_dirs, elect_leaders, txn_offset_commit, write_txn_markers
from tidelog.protocol.index import ApiKey

Refuse = Callable[[Any, BrokerError, int], Any]
"""Takes a request, the error and the version; returns the response."""


def _refuse_txn_offset_commit(
    request: txn_offset_commit.TxnOffsetCommitRequest, error: BrokerError, version: int
) -> txn_offset_commit.TxnOffsetCommitResponse:
    return txn_offset_commit.TxnOffsetCommitResponse(
        topics=[
            txn_offset_commit.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refuse_write_txn_markers(
    request: write_txn_markers.WriteTxnMarkersRequest, error: BrokerError, version: int
) -> write_txn_markers.WriteTxnMarkersResponse:
    return write_txn_markers.WriteTxnMarkersResponse(
        markers=[
            write_txn_markers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            write_txn_markers.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error.code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _refuse_alter_replica_log_dirs(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, error: BrokerError, version: int
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=error.code
                    )
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _refuse_elect_leaders(
    request: elect_leaders.ElectLeadersRequest, error: BrokerError, version: int
) -> elect_leaders.ElectLeadersResponse:
    return elect_leaders.ElectLeadersResponse(
        # Version 0 has no place for it.
        error_code=error.code if version >= 1 else 0,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


REFUSALS: dict[int, Refuse] = {
    ApiKey.TXN_OFFSET_COMMIT: _refuse_txn_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: _refuse_write_txn_markers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _refuse_alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: _refuse_elect_leaders,
}

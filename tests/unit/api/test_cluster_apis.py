"""The APIs nodes use among themselves, and those of operators of a cluster, on a controller in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.api.controller_requests import Asker, answered

from tidelog.controller.core.topics import NewTopic
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tidelog.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.generated.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tidelog.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tidelog.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidelog.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest


async def join(asker: Asker, node_id: int, incarnation: bytes = b"a" * 16, cluster_id: str = "cluster") -> int:
    """Registers another node; the broker epoch, or minus the error."""
    request = BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=[Listener(name="PLAINTEXT", host="h", port=1)],
        features=[
            Feature(name=name, min_supported_version=0, max_supported_version=level)
            for name, level in asker.controller.image.features.items()
        ],
        rack=None,
        log_dirs=[bytes([node_id]) * 16],
    )
    response = await asker.ask(request)
    return -response.error_code if response.error_code else response.broker_epoch


async def beat(asker: Asker, node_id: int, epoch: int, *, stop: bool = False, offset: int | None = None) -> tuple:
    request = BrokerHeartbeatRequest(
        broker_id=node_id,
        broker_epoch=epoch,
        current_metadata_offset=asker.controller.image.offset if offset is None else offset,
        want_shut_down=stop,
    )
    response = await asker.ask(request)
    return response.error_code, response.is_fenced, response.should_shut_down


def test_a_node_registers_heartbeats_and_stops(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        epoch = await join(asker, 2)
        assert asker.controller.image.brokers[2].fenced
        assert await beat(asker, 2, epoch, offset=-1) == (0, True, False)
        assert await beat(asker, 2, epoch) == (0, False, False)
        assert not asker.controller.image.brokers[2].fenced
        assert await join(asker, 2, b"b" * 16) == -ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert await join(asker, 3, cluster_id="other") == -ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (await beat(asker, 2, epoch + 1))[0] == ErrorCode.STALE_BROKER_EPOCH
        assert (await beat(asker, 9, 0))[0] == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert await beat(asker, 2, epoch, stop=True) == (0, False, False)
        assert await beat(asker, 2, epoch, stop=True) == (0, True, True)

    answered(tmp_path, use)


def test_producer_ids_are_handed_out_in_blocks_to_registered_nodes(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        epoch = await join(asker, 2)
        first = await asker.ask(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch))
        second = await asker.ask(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch))
        assert (first.producer_id_start, second.producer_id_start) == (0, first.producer_id_len)
        stale = await asker.ask(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch - 1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    answered(tmp_path, use)


def test_a_leader_reports_who_is_in_sync_in_both_versions(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        epoch = await join(asker, 2)
        await beat(asker, 2, epoch)
        await asker.controller.create_topics([NewTopic("t", assignments=[(0, [1, 2])])])
        topic = asker.controller.image.topics["t"]
        for version, isr in ((2, [1]), (3, [1, 2])):
            state = asker.controller.image.topics["t"].partitions[0]
            partition = AlterPartitionRequestPartitionData(
                partition_index=0,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                new_isr=isr if version == 2 else [],
                new_isr_with_epochs=[BrokerState(broker_id=n, broker_epoch=-1) for n in isr] if version == 3 else [],
            )
            request = AlterPartitionRequest(
                broker_id=1,
                broker_epoch=asker.controller.broker_epoch,
                topics=[AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[partition])],
            )
            response = await asker.ask(request, version)
            [answer] = response.topics[0].partitions
            assert (response.error_code, answer.error_code, answer.isr) == (0, 0, isr)
            assert answer.partition_epoch == state.partition_epoch + 1
            again = await asker.ask(request, version)
            assert again.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
            request.broker_epoch -= 1
            assert (await asker.ask(request, version)).error_code == ErrorCode.STALE_BROKER_EPOCH

    answered(tmp_path, use)


def test_partitions_are_reassigned_listed_and_called_off(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await beat(asker, 2, await join(asker, 2))
        await asker.controller.create_topics([NewTopic("t", assignments=[(0, [1]), (1, [1])])])

        async def alter(replicas: list[int] | None, index: int = 0, version: int = 1, **rest: bool) -> int:
            partition = ReassignablePartition(partition_index=index, replicas=replicas)
            request = AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name="t", partitions=[partition])], **rest
            )
            response = await asker.ask(request, version)
            assert response.error_code == 0
            return int(response.responses[0].partitions[0].error_code)

        assert await alter([2]) == 0
        listed = await asker.ask(ListPartitionReassignmentsRequest(topics=None))
        [moving] = listed.topics[0].partitions
        assert (moving.partition_index, moving.adding_replicas, moving.removing_replicas) == (0, [2], [1])
        other = ListPartitionReassignmentsTopics(name="t", partition_indexes=[1])
        assert (await asker.ask(ListPartitionReassignmentsRequest(topics=[other]))).topics == []
        assert await alter(None) == 0
        assert await alter(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert await alter([9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await alter([1], index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = await alter([1, 2], allow_replication_factor_change=False)
        assert refused == ErrorCode.INVALID_REPLICATION_FACTOR
        assert await alter([1, 2], version=0) == 0

    answered(tmp_path, use)


def test_features_in_every_version(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        for version in (0, 1, 2):
            how = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
            lower = FeatureUpdateKey(feature="transaction.version", max_version_level=1, **how)  # type: ignore[arg-type]
            response = await asker.ask(UpdateFeaturesRequest(feature_updates=[lower]), version)
            assert response.error_code == 0
            assert asker.controller.image.features["transaction.version"] == 1
            assert len(response.results) == (0 if version == 2 else 1)
            higher = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
            assert (await asker.ask(UpdateFeaturesRequest(feature_updates=[higher]), version)).error_code == 0
        unknown = FeatureUpdateKey(feature="no.such", max_version_level=1)
        response = await asker.ask(UpdateFeaturesRequest(feature_updates=[unknown]))
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION

    answered(tmp_path, use)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        topic = DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in (0, 1)],
        )
        response = await asker.ask(DescribeQuorumRequest(topics=[topic]), version)
        found, missing = response.topics[0].partitions
        assert (found.leader_id, found.error_code) == (1, 0)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    answered(tmp_path, use)

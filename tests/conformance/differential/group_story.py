"""Stories of one consumer group, classic or not: members that join, sync, commit and leave, now and then wrongly.

The groups of even seeds are of the consumer protocol (KIP-848). Everything is drawn from a seed. Nothing hangs on time:
sessions are long, and nobody waits for more members.
"""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.differential.story import Side, Story

from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.heartbeat import HeartbeatRequest
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.generated.list_groups import ListGroupsRequest
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignors": "range",
}
"""Range goes by the order of names; what Kafka's other assignor does hangs on its hash codes."""
TOPICS = {"red": 2, "blue": 3}
"""Names and partitions."""
SESSION_MS, REBALANCE_MS = 60_000, 120_000
ACTORS = ("ada", "ben", "cyd")
BOGUS = "nobody"
SUBSCRIPTIONS = (["red"], ["red", "blue"], ["blue", "unknown"])


class Actor:
    """What a client remembers of what it was told."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.instance_id = f"instance-of-{name}" if rng.random() < 0.25 else None
        self.forget(rng)

    def forget(self, rng: random.Random) -> None:
        self.member_id = ""
        self.generation = -1
        self.led: list[str] = []
        """Members that it has to assign partitions to, as their leader."""
        self.protocol: str | None = None
        self.uuid = f"{rng.getrandbits(128):032x}"
        self.epoch = 0
        self.assigned: dict[str, list[int]] = {}


class GroupStory:
    def __init__(self, story: Story, seed: int) -> None:
        self._rng = random.Random(seed)
        self._story = story
        story.on_released = self._released
        self._group = f"story-{seed}"
        self._actors = {name: Actor(name, self._rng) for name in ACTORS}
        self._is_classic = bool(seed % 2)

    def run(self, steps: int) -> None:
        self._commit_as_nobody()
        for _ in range(steps):
            free = [actor for name, actor in self._actors.items() if name not in self._story.parked]
            if not free:
                return
            self._act(self._rng.choice(free))
            self._story.settle()

    # -- chance ------------------------------------------------------------------------------------------------------

    def _rarely(self, right: Any, *wrong: Any) -> Any:
        return right if self._rng.random() < 0.88 else self._rng.choice(wrong)

    def _some_member(self, actor: Actor) -> str:
        """Never another's: Kafka does not answer one who waits any more once somebody else has asked in its name."""
        return str(self._rarely(actor.member_id, BOGUS, ""))

    def _memberships(self, actor: Actor) -> tuple[tuple[str, int], ...]:
        """Of both protocols, though it has only one: id, and generation or epoch."""
        return (self._some_member(actor), actor.generation), (actor.uuid, actor.epoch)

    def _version(self, *versions: int) -> int:
        return self._rng.choice(versions)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _act(self, actor: Actor) -> None:
        rng = self._rng
        if rng.random() < 0.3:
            offsets = (self._commit, self._commit, self._fetch, self._fetch, self._delete_offsets)
            step = rng.choice((*offsets, self._describe, self._describe_consumers, self._list, self._delete))
        elif self._is_classic:
            step = rng.choice(
                (self._join,) * 4 + (self._sync,) * 4 + (self._heartbeat,) * 2 + (self._leave,)
                if actor.generation >= 0
                else (self._join,) * 8 + (self._sync, self._heartbeat, self._leave)
            )
        else:
            step = rng.choice((self._report,) * 6 + (self._depart,))
        step(actor)

    def _join(self, actor: Actor) -> None:
        rng = self._rng
        version = self._version(2, 4, 5, 7, 9)
        topics = rng.choice(SUBSCRIPTIONS)
        metadata = b"\0\1" + ConsumerProtocolSubscription(topics=topics).encode(1)
        names = rng.choice((["range"], ["range", "roundrobin"]))
        kind = "consumer"
        if actor.generation >= 0:
            # Only then: in Kafka, a group that nobody could join is listed for a while.
            names = self._rarely(names, ["sticky"], [])
            kind = self._rarely(kind, "other", "")
        member_id = self._some_member(actor)
        request = {
            "group_id": self._group,
            "session_timeout_ms": self._rarely(SESSION_MS, SESSION_MS, 1),
            "rebalance_timeout_ms": REBALANCE_MS,
            "group_instance_id": actor.instance_id if version >= 5 else None,
            "protocol_type": kind,
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        }

        def build(side: Side) -> JoinGroupRequest:
            return JoinGroupRequest(member_id=side.real(member_id), **request)

        self._joined(actor, self._story.step(actor.name, build, version, may_park=True))

    def _joined(self, actor: Actor, answer: Any) -> None:
        if not isinstance(answer, dict):
            return
        if answer["error_code"] in (0, 79):
            actor.member_id = answer["member_id"]
        if answer["error_code"] == 0:
            actor.generation = answer["generation_id"]
            actor.protocol = answer["protocol_name"]
            actor.led = [member["member_id"] for member in answer["members"]]

    def _released(self, name: str, answer: Any) -> None:
        """Who had to wait was answered."""
        if isinstance(answer, dict) and "generation_id" in answer:
            self._joined(self._actors[name], answer)

    def _sync(self, actor: Actor) -> None:
        version = self._version(0, 2, 3, 4, 5)
        member_id = self._some_member(actor)
        generation = self._rarely(actor.generation, actor.generation + 1, 0, -1)
        request = {
            "group_id": self._group,
            "generation_id": generation,
            "group_instance_id": self._instance(actor) if version >= 3 else None,
            "protocol_type": self._rarely("consumer", None, "other") if version >= 5 else None,
            "protocol_name": self._rarely(actor.protocol, None, "other") if version >= 5 else None,
        }
        led = list(actor.led)

        def build(side: Side) -> SyncGroupRequest:
            assignments = [
                SyncGroupRequestAssignment(member_id=side.real(name), assignment=b"\0\1\0\0\0\0\xff\xff\xff\xff")
                for name in led
            ]
            return SyncGroupRequest(member_id=side.real(member_id), assignments=assignments, **request)

        self._story.step(actor.name, build, version, may_park=True)

    def _instance(self, actor: Actor) -> str | None:
        named: str | None = self._rarely(actor.instance_id, None, "instance-of-ada", BOGUS)
        return named

    def _heartbeat(self, actor: Actor) -> None:
        version = self._version(0, 3, 4)
        member_id = self._some_member(actor)
        generation = self._rarely(actor.generation, actor.generation - 1, actor.generation + 1)
        instance_id = self._instance(actor) if version >= 3 else None

        def build(side: Side) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self._group,
                generation_id=generation,
                member_id=side.real(member_id),
                group_instance_id=instance_id,
            )

        self._story.step(actor.name, build, version)

    def _leave(self, actor: Actor) -> None:
        version = self._version(1, 3, 5)
        leaving = [(self._some_member(actor), self._instance(actor)) for _ in range(self._version(1, 1, 1, 2, 0))]
        single = self._some_member(actor)

        def build(side: Side) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=self._group, member_id=side.real(single))
            members = [MemberIdentity(member_id=side.real(name), group_instance_id=inst) for name, inst in leaving]
            return LeaveGroupRequest(group_id=self._group, members=members)

        self._story.step(actor.name, build, version)

    # -- the consumer protocol ---------------------------------------------------------------------------------------

    def _report(self, actor: Actor) -> None:
        rng = self._rng
        epoch = self._rarely(actor.epoch, 0, actor.epoch - 1, actor.epoch + 1)
        if actor.instance_id is not None and epoch <= 0:
            # Kafka refuses a static member that has not left, though it is the same: a lost answer would be fatal.
            epoch = actor.epoch
        is_full = epoch == 0 or rng.random() < 0.3
        topics = rng.choice(SUBSCRIPTIONS) if is_full else None
        owned: dict[str, list[int]] | None = actor.assigned if epoch > 0 else {}
        if epoch > 0 and not is_full:
            owned = self._rarely(owned, None, {})
        assignor = self._rarely(rng.choice((None, "range")), BOGUS, "uniform") if is_full else None
        uuid = actor.uuid if actor.instance_id is not None else self._rarely(actor.uuid, self._actors["ada"].uuid)

        def build(side: Side) -> ConsumerGroupHeartbeatRequest:
            partitions = None
            if owned is not None:
                partitions = [
                    ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=side.topic_ids[name], partitions=parts)
                    for name, parts in owned.items()
                ]
            return ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=uuid,
                member_epoch=epoch,
                instance_id=actor.instance_id if is_full else None,
                rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
                subscribed_topic_names=topics,
                server_assignor=assignor,
                topic_partitions=partitions,
            )

        answer = self._story.step(actor.name, build, 1)
        if isinstance(answer, dict) and answer["error_code"] == 0 and uuid == actor.uuid:
            actor.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                told = answer["assignment"]["topic_partitions"]
                actor.assigned = {topic["topic_id"]: topic["partitions"] for topic in told}
        elif isinstance(answer, dict) and answer["error_code"] in (25, 110, 113) and actor.instance_id is None:
            actor.epoch = 0
            actor.assigned = {}

    def _depart(self, actor: Actor) -> None:
        epoch = -2 if actor.instance_id is not None and self._rng.random() < 0.6 else self._rarely(-1, -2)

        def build(side: Side) -> ConsumerGroupHeartbeatRequest:
            return ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=actor.uuid, member_epoch=epoch, instance_id=actor.instance_id
            )

        self._story.step(actor.name, build, 1)
        actor.epoch = 0
        actor.assigned = {}
        if epoch == -2 or self._rng.random() < 0.5:
            actor.forget(self._rng)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def _commit(self, actor: Actor) -> None:
        rng = self._rng
        version = self._version(2, 5, 7, 8, 9, 10)
        member_id, generation = rng.choice((*self._memberships(actor), ("", -1)))
        generation = self._rarely(generation, -1, 0, generation + 1)
        topic = self._rarely(rng.choice(tuple(TOPICS)), "unknown")
        partition = self._rarely(0, 1, 7)
        offset = rng.randrange(100)
        metadata = self._rarely("note", None, "x" * 5000)
        instance_id = self._instance(actor) if version >= 7 else None

        def build(side: Side) -> OffsetCommitRequest:
            committed = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
            named = OffsetCommitRequestTopic(partitions=[committed])
            if version >= 10:
                named.topic_id = side.topic_ids.get(topic, b"\x07" * 16)
            else:
                named.name = topic
            return OffsetCommitRequest(
                group_id=self._group,
                generation_id_or_member_epoch=generation,
                member_id=side.real(member_id),
                group_instance_id=instance_id,
                topics=[named],
            )

        self._story.step(actor.name, build, version)

    def _commit_as_nobody(self) -> None:
        """So that there is a group: in Kafka, one that somebody only tried to join exists as well, for a while."""
        committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name="red", partitions=[committed])]
        self._story.step("founder", lambda _: OffsetCommitRequest(group_id=self._group, topics=topics), 8)

    def _fetch(self, actor: Actor) -> None:
        version = self._version(8, 9, 10)
        member_id, epoch = self._rng.choice((*self._memberships(actor), (None, -1)))
        is_everything = self._rng.random() < 0.5

        def build(side: Side) -> OffsetFetchRequest:
            topics = [
                OffsetFetchRequestTopics(
                    name=name if version < 10 else "",
                    topic_id=side.topic_ids[name] if version >= 10 else bytes(16),
                    partition_indexes=[0, 1, 9],
                )
                for name in TOPICS
            ]
            group = OffsetFetchRequestGroup(group_id=self._group, topics=None if is_everything else topics)
            if version >= 9:
                group.member_id = None if member_id is None else side.real(member_id)
                group.member_epoch = epoch
            return OffsetFetchRequest(groups=[group], require_stable=True)

        self._story.step(actor.name, build, version)

    def _delete_offsets(self, actor: Actor) -> None:
        topic = self._rarely("blue", "unknown")
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
        named = OffsetDeleteRequestTopic(name=topic, partitions=partitions)
        self._story.step(actor.name, lambda _: OffsetDeleteRequest(group_id=self._group, topics=[named]), 0)

    # -- administration ----------------------------------------------------------------------------------------------

    def _describe(self, actor: Actor) -> None:
        def without_old(answer: Any) -> Any:
            """Kafka forgets assignments, until it is started again, when a round begins before the last one is over."""
            [group] = answer["groups"]
            if group["group_state"] == "Stable":
                return answer
            members = [{**member, "member_assignment": "..."} for member in group["members"]]
            return {**answer, "groups": [{**group, "members": members}]}

        request = DescribeGroupsRequest(groups=[self._group])
        self._story.step(actor.name, lambda _: request, self._version(0, 3, 5, 6), view=without_old)

    def _describe_consumers(self, actor: Actor) -> None:
        request = ConsumerGroupDescribeRequest(group_ids=[self._group])
        self._story.step(actor.name, lambda _: request, self._version(0, 1))

    def _list(self, actor: Actor) -> None:
        version = self._version(3, 4, 5)
        states = self._rng.choice(([], ["Stable"], ["Empty", "PreparingRebalance"])) if version >= 4 else []

        def own(answer: Any) -> Any:
            """Groups of other stories come to their end meanwhile."""
            return {**answer, "groups": [group for group in answer["groups"] if group["group_id"] == self._group]}

        self._story.step(actor.name, lambda _: ListGroupsRequest(states_filter=states), version, view=own)

    def _delete(self, actor: Actor) -> None:
        self._story.step(actor.name, lambda _: DeleteGroupsRequest(groups_names=[self._group]), 2)
        self._commit_as_nobody()

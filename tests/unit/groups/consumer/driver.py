"""Drives consumer groups without a host; see `tests.unit.groups.driver` for what it adds to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.groups.driver import ShardDriver, durable_view

from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, DescribedConsumerGroup, HeartbeatReply
from tidelog.groups.core.consumer.records import Partitions
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.metadata.topics import TopicsImage

SESSION_MS = 45_000
REVOKE_MS = 60_000


def topic_id(name: str, incarnation: int = 0) -> bytes:
    return f"{name}/{incarnation}".encode().ljust(16, b".")[:16]


def image_of(topics: Mapping[str, int | tuple[int, int]], offset: int = 0) -> MetadataImage:
    """Name to partitions, or to (partitions, incarnation)."""
    found = []
    for name, told in topics.items():
        count, incarnation = told if isinstance(told, tuple) else (told, 0)
        partitions = {p: PartitionState(1, 0, 0, (1,), (1,)) for p in range(count)}
        found.append(TopicImage(name, topic_id(name, incarnation), partitions, {}))
    return MetadataImage(TopicsImage.of(found), offset=offset)


class ConsumerDriver(ShardDriver):
    def __init__(self, topics: Mapping[str, Any] | None = None, settings: GroupSettings | None = None) -> None:
        self.image = image_of(topics or {"t": 4})
        super().__init__(settings or GroupSettings(initial_rebalance_delay_ms=1, consumer_assignment_interval_ms=0))
        self.shard.consumers.image = self.image

    def replayed(self, *, compacted: bool = False) -> GroupShard:
        shard = super().replayed(compacted=compacted)
        shard.consumers.image = self.image
        return shard

    def change_topics(self, topics: Mapping[str, Any]) -> None:
        before = self.image
        self.image = image_of(topics, before.offset + 1)
        names = {*before.topics, *self.image.topics}
        changed = {
            name
            for name in names
            if name not in before.topics
            or name not in self.image.topics
            or len(before.topics[name].partitions) != len(self.image.topics[name].partitions)
            or before.topics[name].topic_id != self.image.topics[name].topic_id
        }
        self.shard.consumers.change_metadata(self.image, changed)

    def send(self, member: str, epoch: int, *, group: str = "g", **fields: Any) -> HeartbeatReply:
        request = ConsumerHeartbeat(group, member, epoch, client_id="client", client_host="/h", **fields)
        return self.perform(self.shard.decide_consumer_heartbeat(request, self.now))

    def describe(self, group: str = "g") -> DescribedConsumerGroup:
        return self.perform(self.shard.describe_consumer_groups((group,), self.now))[0]

    def consumer_state(self, group: str = "g") -> str:
        found = self.shard.consumers.get(group)
        return "missing" if found is None else found.state.value


class Consumer:
    """A member as its client sees it."""

    def __init__(self, driver: ConsumerDriver, name: str, *topics: str, group: str = "g", **fields: Any) -> None:
        self.driver = driver
        self.member_id = name
        self.group = group
        self.fields = fields
        self.topics = topics
        self.epoch = 0
        self.owned: Partitions = {}
        self.assigned: Partitions = {}

    def join(self, **changed: Any) -> HeartbeatReply:
        self.epoch, self.owned, self.assigned = 0, {}, {}
        fields: dict[str, Any] = {"rebalance_timeout_ms": REVOKE_MS, "owned": {}, **self.fields, **changed}
        if self.topics or "pattern" not in fields:
            fields.setdefault("topics", self.topics)
        return self._learn(self.driver.send(self.member_id, 0, group=self.group, **fields))

    def beat(self, **fields: Any) -> HeartbeatReply:
        """Reports what it owns and takes over its assignment at once."""
        fields.setdefault("owned", self.owned)
        if "instance_id" in self.fields:
            fields["instance_id"] = self.fields["instance_id"]
        return self._learn(self.driver.send(self.member_id, self.epoch, group=self.group, **fields))

    def leave(self, epoch: int = -1) -> HeartbeatReply:
        fields = {"instance_id": self.fields["instance_id"]} if "instance_id" in self.fields else {}
        return self.driver.send(self.member_id, epoch, group=self.group, **fields)

    def _learn(self, reply: HeartbeatReply) -> HeartbeatReply:
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.assigned = self.owned = reply.assignment
        return reply

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return {(topic, partition) for topic, partitions in self.owned.items() for partition in partitions}


def settle(*members: Consumer) -> None:
    """All members report until none has anything left to do."""
    for _ in range(4):
        for member in members:
            member.beat()


def consumer_view(shard: GroupShard) -> dict[str, Any]:
    """All that the log must remember of consumer groups, classic groups and offsets."""
    view = durable_view(shard)
    view["consumers"] = {
        group.group_id: (
            group.epoch, group.metadata_hash, group.target_epoch, group.members, group.current, group.targets,
            group.patterns, group.owners, group.static_members, group.topic_readers, group.pattern_users,
            group.classic_protocols,
        )
        for group in shard.consumers.groups.values()
    }  # fmt: skip
    return view

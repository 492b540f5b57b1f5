"""The controller under random losses and returns of brokers, reports of leaders, reassignments and elections.

After every decision: a leader is alive and in sync, or there is none; no in-sync set is empty or has strangers in it;
epochs only grow; an acknowledged record is on every in-sync replica (unless the topic gave that up); and the records
alone give the live image back.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.metadata.images import directory_id

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.alter_partition import InSyncReplica, IsrChange, decide_alter_partitions
from tidelog.controller.core.brokers import (
    Registration,
    decide_fence_broker,
    decide_heartbeat,
    decide_lead_again,
    decide_leave_partitions,
    decide_register_broker,
    decide_unregister_broker,
)
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.elections import PREFERRED, UNCLEAN, decide_balance_leaders, decide_elect_leaders
from tidelog.controller.core.reassignments import Reassignment, decide_reassign
from tidelog.controller.core.topics import NewTopic, decide_create_topics, decide_delete_topics
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.framing import decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import Endpoint, MetadataImage, PartitionState
from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition

NODES = (1, 2, 3, 4, 5)
CONFIG = BrokerConfig()
nodes = st.sampled_from(NODES)
picks = st.integers(0, 1000)


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage(cluster_id="test", controller_id=1)
        self.log: list[bytes] = []
        self.created = 0
        self.incarnations = 0
        self.complete: dict[tuple[bytes, int], set[int]] = {}
        """Partition -> the nodes that hold every acknowledged record."""

    def run(self, decision: Decision[object]) -> None:
        encoded = [encode_metadata_record(record) for record in decision.records]
        self.log += encoded
        delta = MetadataDelta(self.image, map(decode_metadata_record, encoded))
        before, self.image = self.image, delta.apply(len(self.log) - 1, 1)
        self._check_epochs(before)
        self._check_complete()

    def attempt(self, decide: object) -> None:
        try:
            decision = decide()  # type: ignore[operator]
        except BrokerError:
            return
        self.run(decision)

    def settle(self) -> None:
        """What the controller does by itself after every change of a broker."""
        for decide in (decide_leave_partitions, decide_lead_again):
            for _ in range(10):
                decision = decide(self.image, CONFIG)
                self.run(decision)
                if not decision.reply:
                    break
            else:
                raise AssertionError(f"{decide.__name__} has no end")

    # -- brokers -------------------------------------------------------------------------------------------------------

    @initialize()
    def three_brokers(self) -> None:
        for node_id in (1, 2, 3):
            self.register(node_id)
            self.heartbeat(node_id, shut_down=False)

    @rule(node_id=nodes)
    def register(self, node_id: int) -> None:
        self.incarnations += 1
        registration = Registration(
            node_id,
            self.incarnations.to_bytes(16, "big"),
            (Endpoint("PLAINTEXT", "h", 1),),
            (directory_id(node_id),),
        )
        self.attempt(lambda: decide_register_broker(self.image, CONFIG, registration))
        self.settle()

    @rule(node_id=nodes, shut_down=st.booleans())
    def heartbeat(self, node_id: int, shut_down: bool) -> None:
        broker = self.image.brokers.get(node_id)
        if broker is not None:
            self.run(
                decide_heartbeat(
                    self.image,
                    CONFIG,
                    node_id,
                    broker.epoch,
                    metadata_offset=self.image.offset,
                    want_shut_down=shut_down,
                )
            )
            self.settle()

    @rule(node_id=nodes)
    def lose(self, node_id: int) -> None:
        self.run(decide_fence_broker(self.image, CONFIG, node_id))
        self.settle()

    @rule(node_id=st.sampled_from((4, 5)))
    def unregister(self, node_id: int) -> None:
        if not any(node_id in state.replicas for _, _, state in self.partitions()):
            self.attempt(lambda: decide_unregister_broker(self.image, CONFIG, node_id))

    # -- topics --------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), factor=st.integers(1, 3), unclean=st.booleans())
    def create(self, count: int, factor: int, unclean: bool) -> None:
        if len(self.image.topics) == 4:
            return
        self.created += 1
        value = str(unclean).lower()
        topic = NewTopic(f"t{self.created}", count, factor, configs=[("unclean.leader.election.enable", value)])
        topic_id = self.created.to_bytes(16, "big")
        decision = decide_create_topics(self.image, CONFIG, [topic], new_topic_id=lambda: topic_id)
        self.run(decision)

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        names = list(self.image.topics)
        if len(names) == 4:
            self.run(decide_delete_topics(self.image, [(names[pick % 4], bytes(16))]))

    @rule(pick=picks, kept=st.sets(nodes))
    def report(self, pick: int, kept: set[int]) -> None:
        """A leader, or someone who takes itself for one, reports who is in sync; also in old epochs."""
        found = self.pick(pick)
        if found is None:
            return
        topic_id, index, state = found
        if state.leader < 0:
            return
        isr = [node for node in state.replicas if node in kept or node == state.leader]
        change = IsrChange(
            topic_id, index, state.leader_epoch - pick % 2, state.partition_epoch, [InSyncReplica(n) for n in isr]
        )
        epoch = self.image.brokers[state.leader].epoch
        decision = decide_alter_partitions(self.image, state.leader, epoch, [change])
        # A leader names a replica only when it has caught up.
        self.complete.setdefault((topic_id, index), set()).update(isr)
        self.run(decision)

    @rule(pick=picks, wanted_nodes=st.lists(nodes, min_size=1, max_size=3, unique=True), cancel=st.booleans())
    def reassign(self, pick: int, wanted_nodes: list[int], cancel: bool) -> None:
        found = self.pick(pick)
        if found is not None:
            name = self.image.topics_by_id[found[0]].name
            wanted = Reassignment(TopicPartition(name, found[1]), None if cancel else wanted_nodes)
            self.run(decide_reassign(self.image, CONFIG, [wanted]))
            self.settle()

    @rule()
    def balance(self) -> None:
        self.run(decide_balance_leaders(self.image))

    @rule(kind=st.sampled_from((PREFERRED, UNCLEAN)))
    def elect(self, kind: int) -> None:
        self.run(decide_elect_leaders(self.image, kind, None))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def partitions(self) -> list[tuple[bytes, int, PartitionState]]:
        return [(t.topic_id, i, state) for t in self.image.topics.values() for i, state in t.partitions.items()]

    def pick(self, number: int) -> tuple[bytes, int, PartitionState] | None:
        found = self.partitions()
        return found[number % len(found)] if found else None

    def _check_epochs(self, before: MetadataImage) -> None:
        for topic_id, index, state in self.partitions():
            known = before.topics_by_id.get(topic_id)
            was = None if known is None else known.partitions.get(index)
            if was is not None and was != state:
                assert state.partition_epoch > was.partition_epoch
                assert state.leader_epoch >= was.leader_epoch
                if state.leader != was.leader:
                    assert state.leader_epoch > was.leader_epoch
        for node_id, broker in self.image.brokers.items():
            assert node_id not in before.brokers or broker.epoch >= before.brokers[node_id].epoch

    def _check_complete(self) -> None:
        """The in-sync set always holds every acknowledged record, unless an unclean election gave some up."""
        for topic_id, index, state in self.partitions():
            complete = self.complete.setdefault((topic_id, index), set(state.isr))
            if state.leader_recovery_state == 1:
                complete.clear()
                complete.update(state.isr)
            assert set(state.isr) <= complete, (state, complete)
            # Records go on being acknowledged by the in-sync set alone.
            complete.intersection_update(state.isr)

    @invariant()
    def leaders_are_alive_and_in_sync(self) -> None:
        for _, _, state in self.partitions():
            assert state.isr
            assert set(state.isr) <= set(state.replicas)
            assert len(set(state.replicas)) == len(state.replicas)
            assert set(state.adding_replicas) | set(state.removing_replicas) <= set(state.replicas)
            if state.leader >= 0:
                assert state.leader in state.isr
                assert self.image.is_active(state.leader)

    @invariant()
    def the_records_alone_give_the_image(self) -> None:
        snapshot = [encode_metadata_record(record) for record in self.image.records()]
        empty = MetadataImage(cluster_id="test", controller_id=1)
        for values in (self.log, snapshot):
            image = MetadataDelta(empty, map(decode_metadata_record, values)).apply(self.image.offset, 1)
            assert image.brokers == self.image.brokers
            assert image.features == self.image.features
            assert {t.name: (t.topic_id, t.partitions, t.config) for t in image.topics.values()} == {
                t.name: (t.topic_id, t.partitions, t.config) for t in self.image.topics.values()
            }


TestController = ControllerMachine.TestCase
TestController.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Consumer groups under random joins, leaves, lost replies, topics, time, failing writes, crashes and replays.

What must hold: no partition is owned twice at a time, nobody's epoch goes back unless it begins again, a committed
offset never moves unless somebody commits it, members of either protocol are never told to read what others still own,
and the log alone, whole or compacted, gives the live state back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.groups.consumer.driver import ConsumerDriver, consumer_view
from tests.unit.groups.driver import subscription

from tidelog.groups.core.consumer.embedded import decode_assignment
from tidelog.groups.core.consumer.records import Partitions
from tidelog.groups.core.consumer.state import MemberState
from tidelog.groups.core.messages import OffsetToCommit
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import BrokerError, ErrorCode

TOPICS = ("t", "u", "v")
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"topics": ("t",)},
    {"topics": ("t", "u")},
    {"topics": ("u", "v")},
    {"pattern": "[tu]"},
    {"topics": ("v",), "pattern": ".*"},
)
INSTANCES = (None, None, "i", "j")
DELAYS_MS = (0, 1, 1_000, 9_000, 44_999, 45_000, 60_000)
PROTOCOLS = ((("range", subscription("t")),), (("range", subscription("t", "u")), ("sticky", subscription("t", "u"))))
BEGIN_AGAIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Client:
    """Reads what it owns, reports it, and changes over to what it is told when it gets round to it.

    Whoever gets no answer says everything again in its next heartbeat, as Kafka's clients do: only so is it told its
    assignment a second time. A report is a promise, since the coordinator takes what is missing in it for given up: who
    reports before it has changed over, and gets no answer, does not change over any more. A classic one owns nothing
    while it rejoins, as eager ones do.
    """

    def __init__(self, number: int, instance: str | None, wants: dict[str, Any], protocols: Any) -> None:
        self.instance = instance
        self.wants = wants
        self.protocols = protocols
        self.is_classic = protocols is not None
        self.member_id = "" if self.is_classic else f"m{number}"
        self.epoch = 0
        self.owned: Partitions = {}
        self.told: Partitions | None = None
        self.must_say_all = False
        self.join_token: int | None = None

    def change_over(self) -> None:
        if self.told is not None:
            self.owned, self.told = self.told, None

    def begin_again(self) -> None:
        self.epoch, self.owned, self.told, self.must_say_all, self.join_token = 0, {}, None, False, None
        if self.is_classic:
            self.member_id = ""


class ConsumerGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, Any] = {"t": 4, "u": 3}
        self.driver = ConsumerDriver(
            self.topics,
            GroupSettings(
                initial_rebalance_delay_ms=0, consumer_max_size=5, offsets_retention_ms=10**15,
                offsets_retention_check_interval_ms=100_000, consumer_assignment_interval_per_member_us=300_000,
            ),
        )  # fmt: skip
        self.clients: list[Client] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.epochs: dict[str, int] = {}
        self.incarnation = 0
        self.replayed_records = 0

    # -- what clients do ----------------------------------------------------------------------------------------------

    @rule(
        instance=st.sampled_from(INSTANCES),
        wants=st.sampled_from(SUBSCRIPTIONS),
        protocols=st.none() | st.none() | st.sampled_from(PROTOCOLS),
    )
    def start(self, instance: str | None, wants: dict[str, Any], protocols: Any) -> None:
        if len(self.clients) < 8:
            self.clients.append(Client(len(self.clients), instance, wants, protocols))

    @rule(turns=st.integers(1, 5), late=st.sets(st.integers(0, 7), max_size=2), late_reports=st.booleans())
    def act(self, turns: int, late: set[int], late_reports: bool) -> None:
        """Everybody does what it would do next, again and again: most groups get somewhere.

        Who is late goes on reading what it read, and says so or says nothing.
        """
        for _ in range(turns):
            for number, client in enumerate(self.clients):
                if number not in late:
                    client.change_over()
                self.step(client, number not in late or late_reports, True)
            self.driver.advance(500)

    @rule(data=st.data(), is_prompt=st.booleans(), reports=st.booleans(), is_heard=st.booleans())
    def one(self, data: st.DataObject, is_prompt: bool, reports: bool, is_heard: bool) -> None:
        if self.clients:
            client = data.draw(st.sampled_from(self.clients))
            if is_prompt:
                client.change_over()
            self.step(client, reports, is_heard)

    def step(self, client: Client, reports: bool, is_heard: bool) -> None:
        """`is_heard`: the reply reaches the client."""
        try:
            if client.is_classic:
                self.step_classic(client)
            else:
                self.step_consumer(client, reports, is_heard)
        except BrokerError as error:
            client.must_say_all = True
            if error.code in BEGIN_AGAIN:
                client.begin_again()
        self.forget_owned_by_the_lost()

    def step_consumer(self, client: Client, reports: bool, is_heard: bool) -> None:
        fields: dict[str, Any] = {"instance_id": client.instance}
        if client.epoch == 0:
            client.owned, client.told = {}, None
        if client.epoch == 0 or client.must_say_all:
            fields.update(owned=client.owned, rebalance_timeout_ms=30_000, **client.wants)
        elif reports:
            fields["owned"] = client.owned
        reply = self.driver.send(client.member_id, client.epoch, **fields)
        if not is_heard:
            client.must_say_all = True
            if "owned" in fields:
                client.told = None
            return
        if reply.error is not ErrorCode.NONE:
            return
        client.must_say_all = False
        assert reply.member_epoch >= client.epoch, "epochs only grow"
        client.epoch = reply.member_epoch
        if reply.assignment is not None:
            client.told = reply.assignment

    def step_classic(self, client: Client) -> None:
        if client.join_token is not None:
            reply = self.driver.replies.get(client.join_token)
            if reply is None:
                return
            client.join_token = None
            self.joined(client, reply)
            return
        if client.epoch > 0:
            error = self.driver.heartbeat(client.member_id, client.epoch, instance=client.instance)
            if error is ErrorCode.NONE:
                return
            client.owned, client.epoch = {}, 0
            if error in BEGIN_AGAIN:
                client.begin_again()
                return
        client.join_token, reply = self.driver.send_join(
            client.member_id, instance=client.instance, protocols=client.protocols
        )
        if reply is not None:
            client.join_token = None
            self.joined(client, reply)

    def joined(self, client: Client, reply: Any) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
        elif reply.error is ErrorCode.NONE:
            client.member_id, client.epoch = reply.member_id, reply.generation
            given = {member_id: b"" for member_id, _, _ in reply.members} or None
            token, synced = self.driver.send_sync(client.member_id, client.epoch, given, instance=client.instance)
            synced = synced or self.driver.replies.get(token)
            if synced is None or synced.error is not ErrorCode.NONE:
                client.epoch = 0
            else:
                client.owned = decode_assignment(synced.assignment, self.driver.image)[0]
        elif reply.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            client.begin_again()

    @rule(data=st.data(), epoch=st.sampled_from((-1, -2)))
    def leave(self, data: st.DataObject, epoch: int) -> None:
        if not self.clients:
            return
        client = data.draw(st.sampled_from(self.clients))
        if client.is_classic:
            self.driver.leave((client.member_id, client.instance))
        else:
            with_place = epoch if client.instance is not None else -1
            with suppress(BrokerError):
                self.driver.send(client.member_id, with_place, instance_id=client.instance)
        client.begin_again()
        self.forget_owned_by_the_lost()

    @rule(data=st.data(), wants=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, data: st.DataObject, wants: dict[str, Any]) -> None:
        consumers = [c for c in self.clients if not c.is_classic and c.epoch > 0]
        if not consumers:
            return
        client = data.draw(st.sampled_from(consumers))
        client.wants = {"topics": (), "pattern": "", **wants}
        try:
            fields = {"instance_id": client.instance, "owned": client.owned, **client.wants}
            if client.must_say_all:
                fields["rebalance_timeout_ms"] = 30_000
            reply = self.driver.send(client.member_id, client.epoch, **fields)
        except BrokerError:
            client.begin_again()
            return
        client.must_say_all = False
        client.epoch = reply.member_epoch
        if reply.assignment is not None:
            client.told = reply.assignment

    @rule(data=st.data(), offset=st.integers(0, 100), behind=st.integers(0, 2))
    def commit(self, data: st.DataObject, offset: int, behind: int) -> None:
        owners = [c for c in self.clients if c.epoch > 0 and c.owned]
        if not owners:
            return
        client = data.draw(st.sampled_from(owners))
        topic_id = data.draw(st.sampled_from(sorted(client.owned)))
        topic = self.driver.image.topics_by_id.get(topic_id)
        if topic is None:
            return
        partition = client.owned[topic_id][0]
        wanted = OffsetToCommit(topic.name, partition, offset, topic_id=topic_id)
        try:
            errors = self.driver.commit(
                wanted, member_id=client.member_id, generation=client.epoch - behind, instance=client.instance
            )
        except BrokerError:
            return
        if errors == [ErrorCode.NONE]:
            self.committed[topic.name, partition] = offset

    # -- what happens to them -----------------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 5))
    def change_topics(self, topic: str, count: int) -> None:
        self.incarnation += count == 0
        if count:
            known = self.topics.get(topic, (0, self.incarnation))
            had, incarnation = known if isinstance(known, tuple) else (known, 0)
            self.topics[topic] = (max(had, count), incarnation)
        else:
            self.topics.pop(topic, None)
        self.driver.change_topics(self.topics)

    @rule(delay_ms=st.sampled_from(DELAYS_MS))
    def wait(self, delay_ms: int) -> None:
        self.driver.advance(delay_ms)
        self.forget_owned_by_the_lost()

    @rule(delay_ms=st.sampled_from(DELAYS_MS), data=st.data())
    def disk_full_for_a_while(self, delay_ms: int, data: st.DataObject) -> None:
        self.driver.append_error = ErrorCode.NOT_COORDINATOR
        try:
            self.one(data, True, True, True)
            self.driver.advance(delay_ms)
        finally:
            self.driver.append_error = None
        self.forget_owned_by_the_lost()

    @rule()
    def crash(self) -> None:
        self.driver.crash()
        for client in self.clients:
            client.join_token = None
        self.driver.shard.consumers.change_metadata(self.driver.image, TOPICS)

    def forget_owned_by_the_lost(self) -> None:
        """A client that the group has dropped stops reading by itself: its own session is over as well."""
        group = self.driver.shard.consumers.get("g")
        classic = self.driver.shard.groups.get("g")
        members = set(group.members if group is not None else ()) | set(classic.members if classic is not None else ())
        for client in self.clients:
            if client.epoch > 0 and client.member_id not in members:
                client.begin_again()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @initialize(wants=st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=2, max_size=4))
    def start_some(self, wants: list[dict[str, Any]]) -> None:
        for chosen in wants:
            self.start(None, chosen, None)

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        if self.driver.shard.consumers.get("g") is None:
            return
        readers: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            if client.epoch <= 0:
                continue
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    reader = readers.setdefault((topic_id, partition), client.member_id)
                    assert reader == client.member_id, f"{reader} and {client.member_id} read {topic_id!r}-{partition}"

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.driver.shard.consumers.get("g")
        if group is None:
            return
        assert "g" not in self.driver.shard.groups, "an id stands for one group"
        assert group.target_epoch <= group.epoch
        assert group.current.keys() <= group.members.keys()
        assert group.targets.keys() <= group.members.keys()
        assert set(group.patterns) == set(group.pattern_users)
        owners: dict[bytes, dict[int, str]] = {}
        for member_id, current in group.current.items():
            assert current.epoch <= group.target_epoch
            assert bool(current.revoking) == (current.state is MemberState.UNREVOKED_PARTITIONS) or current.epoch == -2
            for owned in (current.owned, current.revoking):
                for topic_id, partitions in owned.items():
                    for partition, epoch in partitions.items():
                        assert partition not in owners.setdefault(topic_id, {}), "owned twice"
                        assert epoch <= group.target_epoch
                        owners[topic_id][partition] = member_id
        assert owners == group.owners
        targets = [(t, p) for target in group.targets.values() for t, partitions in target.items() for p in partitions]
        assert len(targets) == len(set(targets)), "no partition is meant for two"
        assert group.static_members == {m.instance_id: i for i, m in group.members.items() if m.instance_id is not None}

    @invariant()
    def offsets_are_what_was_committed(self) -> None:
        for (topic, partition), offset in self.committed.items():
            assert self.driver.fetch(topic, partition).offset == offset

    @invariant()
    def the_log_gives_the_live_state_back(self) -> None:
        if len(self.driver.log) == self.replayed_records:
            return
        self.replayed_records = len(self.driver.log)
        live = consumer_view(self.driver.shard)
        for compacted in (False, True):
            replayed = consumer_view(self.driver.replayed(compacted=compacted))
            assert replayed["consumers"] == live["consumers"]
            assert replayed["offsets"] == live["offsets"]


def test_who_missed_the_reply_that_took_partitions_away_is_told_again() -> None:
    """Found by the search: the first to join is given everything, and is then to share it before it has taken it."""
    groups = ConsumerGroups()
    for topics in (("u", "v"), ("v", "u"), ("t",), ("u", "v")):
        groups.start(None, {"topics": topics}, None)
    groups.act(1, set(), False)
    groups.wait(1_000)
    first = groups.clients[0]
    given = first.told
    groups.step(first, True, False)
    groups.step(first, True, True)
    assert first.told is not None
    assert first.told != given
    groups.act(2, {6}, True)
    groups.no_partition_is_read_twice()
    groups.the_group_is_consistent()


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=100, derandomize=True, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.long
class TestConsumerGroupsLong(ConsumerGroups.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(
        max_examples=2000, stateful_step_count=100, deadline=None, suppress_health_check=list(HealthCheck)
    )

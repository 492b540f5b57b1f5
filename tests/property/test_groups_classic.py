"""Classic groups under random joins, leaves, commits, time, failing writes, crashes and replays.

What must hold: no partition is owned twice in one generation, a committed offset never moves unless somebody commits or
deletes it, nobody is answered twice or left waiting by a settled group, and the log alone gives the live state back.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from tests.unit.groups.driver import ShardDriver, durable_view, subscription

from tidelog.groups.core.messages import DeleteOffsets, Joined, OffsetToCommit, Synced
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.state import ClassicGroupState
from tidelog.model.errors import BrokerError, ErrorCode

GROUPS = ("g", "h")
TOPICS = ("t", "u")
PARTITIONS = 6
INSTANCES = (None, "i", "j")
PROTOCOLS = (
    (("range", subscription("t")),),
    (("range", subscription("t", "u")), ("sticky", subscription("t"))),
    (("sticky", subscription("t")), ("range", subscription("t"))),
)
DELAYS_MS = (0, 1, 500, 4_000, 9_999, 10_000, 30_000, 60_000, 400_000)
NEVER_EXPIRES_MS = 10**15


class Client:
    """A member as its client sees it."""

    def __init__(self, group: str, instance: str | None, protocols: Any) -> None:
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.is_synced = False
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.members: list[str] = []
        self.session_ms = 10_000

    def reset(self) -> None:
        self.member_id = ""
        self.give_up()

    def give_up(self) -> None:
        self.generation = -1
        self.is_synced = False
        self.join_token = self.sync_token = None


class ClassicGroups(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver(
            GroupSettings(
                initial_rebalance_delay_ms=500, max_size=4, offsets_retention_ms=NEVER_EXPIRES_MS,
                offsets_retention_check_interval_ms=200_000,
            )
        )  # fmt: skip
        self.everyone: list[Client] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self.owners: dict[tuple[str, int, int], str] = {}
        """(group, generation, partition) to the one member that was ever told to read it."""

    # -- what clients do ----------------------------------------------------------------------------------------------

    @rule(
        target=clients,
        group=st.sampled_from(GROUPS),
        instance=st.sampled_from(INSTANCES),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def start(self, group: str, instance: str | None, protocols: Any) -> Client:
        client = Client(group, instance, protocols)
        self.everyone.append(client)
        return client

    @initialize(
        target=clients,
        members=st.lists(st.tuples(st.sampled_from(GROUPS), st.sampled_from(INSTANCES)), min_size=2, max_size=5),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def start_some(self, members: list[tuple[str, str | None]], protocols: Any) -> Any:
        return multiple(*(self.start(group, instance, protocols) for group, instance in members))

    @rule(data=st.data(), group=st.sampled_from(GROUPS), turns=st.integers(1, 6))
    def act(self, data: st.DataObject, group: str, turns: int) -> None:
        """Every client of a group does what it would do next, again and again: most groups get somewhere."""
        for _ in range(turns):
            for client in list(self.everyone):
                if client.group != group or client.join_token is not None or client.sync_token is not None:
                    continue
                if client.generation < 0:
                    self.join(client, 9, None)
                elif client.is_synced:
                    self.heartbeat(client)
                else:
                    self.sync(client, data)
            self.wait(500)

    @rule(client=clients, version=st.sampled_from((3, 4, 8, 9)), protocols=st.none() | st.sampled_from(PROTOCOLS))
    def join(self, client: Client, version: int, protocols: Any) -> None:
        if client.join_token is not None or client.sync_token is not None:
            return
        client.protocols = protocols or client.protocols
        token, reply = self.driver.send_join(
            client.member_id,
            group=client.group,
            instance=client.instance,
            protocols=client.protocols,
            version=version,
            session_ms=client.session_ms,
        )
        client.join_token = token
        if reply is not None:
            self.joined(client, reply)
        self.deliver()

    @rule(client=clients, version=st.sampled_from((8, 9)), session_ms=st.sampled_from((10_000, 25_000)))
    def restart(self, client: Client, version: int, session_ms: int) -> None:
        """The client's process dies and comes back without its member id, and perhaps with another setting."""
        client.reset()
        client.session_ms = session_ms
        self.join(client, version, None)

    @rule(client=clients, data=st.data())
    def sync(self, client: Client, data: st.DataObject) -> None:
        if client.generation < 0 or client.join_token is not None or client.sync_token is not None:
            return
        assignment = {}
        if client.members:
            owners = data.draw(
                st.lists(st.sampled_from(client.members), min_size=PARTITIONS, max_size=PARTITIONS), label="owners"
            )
            for member in client.members:
                assignment[member] = bytes(p for p, owner in enumerate(owners) if owner == member)
        token, reply = self.driver.send_sync(
            client.member_id, client.generation, assignment, group=client.group, instance=client.instance
        )
        client.sync_token = token
        if reply is not None:
            self.synced(client, reply)
        self.deliver()

    @rule(client=clients)
    def heartbeat(self, client: Client) -> None:
        error = self.driver.heartbeat(client.member_id, client.generation, group=client.group, instance=client.instance)
        if client.join_token is not None or client.sync_token is not None:
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.reset()
        elif error is not ErrorCode.NONE:
            client.give_up()

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        self.driver.leave((client.member_id, client.instance), group=client.group)
        self.deliver()
        client.reset()

    @rule(client=consumes(clients))
    def vanish(self, client: Client) -> None:
        """The client dies without a word."""
        self.everyone.remove(client)

    @rule(
        client=clients,
        topic=st.sampled_from(TOPICS),
        partition=st.integers(0, PARTITIONS - 1),
        offset=st.integers(0, 100),
    )
    def commit(self, client: Client, topic: str, partition: int, offset: int) -> None:
        try:
            errors = self.driver.commit(
                OffsetToCommit(topic, partition, offset),
                member_id=client.member_id,
                generation=client.generation,
                group=client.group,
                instance=client.instance,
            )
        except BrokerError:
            return
        assert list(errors) == [ErrorCode.NONE]
        self.committed[client.group, topic, partition] = offset

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group: str) -> None:
        (result,) = self.driver.perform(self.driver.shard.decide_delete_groups([group], self.driver.now))
        if result[1] is ErrorCode.NONE:
            self.committed = {key: offset for key, offset in self.committed.items() if key[0] != group}
            self.forget_owners(group)

    @rule(group=st.sampled_from(GROUPS), topic=st.sampled_from(TOPICS), partition=st.integers(0, PARTITIONS - 1))
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        request = DeleteOffsets(group, [(topic, [partition])])
        try:
            decision = self.driver.shard.decide_delete_offsets(request, self.driver.now)
        except BrokerError:
            return
        if self.driver.perform(decision) == [(topic, [(partition, ErrorCode.NONE)])]:
            self.committed.pop((group, topic, partition), None)

    # -- what happens to the node -------------------------------------------------------------------------------------

    @rule(delay_ms=st.sampled_from(DELAYS_MS))
    def wait(self, delay_ms: int) -> None:
        before = set(self.driver.shard.groups)
        self.driver.advance(delay_ms)
        for group in before - set(self.driver.shard.groups):
            self.forget_owners(group)
        self.deliver()

    @rule()
    def crash(self) -> None:
        self.driver.crash()
        for client in self.everyone:
            # Connections are gone, and with them the requests that were parked.
            client.join_token = client.sync_token = None
        self.forget_unwritten_generations()

    @rule(client=clients, delay_ms=st.sampled_from(DELAYS_MS))
    def disk_full_for_a_while(self, client: Client, delay_ms: int) -> None:
        self.driver.append_error = ErrorCode.NOT_COORDINATOR
        try:
            if client.members and client.generation >= 0 and client.join_token is None and client.sync_token is None:
                token, reply = self.driver.send_sync(
                    client.member_id, client.generation, {}, group=client.group, instance=client.instance
                )
                client.sync_token = token
                if reply is not None:
                    self.synced(client, reply)
            self.wait(delay_ms)
        finally:
            self.driver.append_error = None

    # -- replies ------------------------------------------------------------------------------------------------------

    def deliver(self) -> None:
        for client in self.everyone:
            if client.join_token in self.driver.replies:
                self.joined(client, self.driver.replies[client.join_token])
            if client.sync_token in self.driver.replies:
                self.synced(client, self.driver.replies[client.sync_token])

    def joined(self, client: Client, reply: Joined) -> None:
        client.join_token = None
        if reply.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = reply.member_id
        if reply.error is ErrorCode.NONE:
            assert (
                reply.generation > client.generation
                or client.instance is not None
                or reply.generation == (client.generation)
            ), "generations only grow"
            client.generation = reply.generation
            client.is_synced = False
            client.members = [] if reply.skip_assignment else [m[0] for m in reply.members]
            if client.members:
                assert reply.leader == reply.member_id
                assert client.member_id in client.members
        elif reply.error in (
            ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED
        ):  # fmt: skip
            client.reset()
        else:
            client.give_up()

    def synced(self, client: Client, reply: Synced) -> None:
        client.sync_token = None
        if reply.error is ErrorCode.NONE:
            client.is_synced = True
            for partition in reply.assignment:
                key = (client.group, client.generation, partition)
                # A static member keeps what it owns under a new member id.
                me = client.instance or client.member_id
                owner = self.owners.setdefault(key, me)
                assert owner == me, f"{key} belongs to {owner} and to {me}"
        elif reply.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.reset()
        else:
            client.give_up()

    def forget_owners(self, group: str) -> None:
        """A group that is gone begins at generation 1 again; its old members cannot do anything any more."""
        self.owners = {key: owner for key, owner in self.owners.items() if key[0] != group}
        for client in self.everyone:
            if client.group == group:
                client.reset()

    def forget_unwritten_generations(self) -> None:
        """A generation that was formed but not written is formed again with the same number; nobody owned anything."""
        for client in self.everyone:
            group = self.driver.shard.groups.get(client.group)
            if group is None or client.generation > group.generation:
                client.reset()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def offsets_are_what_was_committed(self) -> None:
        for group in GROUPS:
            for topic in TOPICS:
                for partition in range(PARTITIONS):
                    expected = self.committed.get((group, topic, partition), -1)
                    assert self.driver.fetch(topic, partition, group=group).offset == expected

    @invariant()
    def the_log_gives_the_live_state_back(self) -> None:
        self.compare_with(durable_view(self.driver.replayed()))

    @invariant()
    def the_compacted_log_gives_the_live_state_back(self) -> None:
        self.compare_with(durable_view(self.driver.replayed(compacted=True)))

    def compare_with(self, replayed: dict[str, Any]) -> None:
        live = durable_view(self.driver.shard)
        assert live["offsets"] == replayed["offsets"]
        for group_id, view in live["groups"].items():
            group = self.driver.shard.groups[group_id]
            if group.is_recorded or self.driver.shard.offsets.of_group(group_id):
                assert replayed["groups"][group_id] == view
        for group_id in replayed["groups"]:
            assert group_id in self.driver.shard.groups, "nothing comes back from the dead"

    @invariant()
    def groups_are_consistent(self) -> None:
        for group in self.driver.shard.groups.values():
            members = group.members
            assert group.awaiting_join == sum(m.join_token is not None for m in members.values())
            assert group.static_members == {m.instance_id: m.member_id for m in members.values() if m.instance_id}
            assert group.pending_members.isdisjoint(members)
            assert group.pending_sync <= members.keys()
            assert not group.arriving
            names: dict[str, int] = {}
            for member in members.values():
                for name, _ in member.protocols:
                    names[name] = names.get(name, 0) + 1
            assert group.supported == names
            if group.state is ClassicGroupState.EMPTY:
                assert not members
            if group.state is ClassicGroupState.STABLE:
                assert members
                assert group.leader in members
                assert not any(m.join_token or m.sync_token for m in members.values()), "nobody waits for nothing"

    @invariant()
    def nobody_waits_without_a_deadline(self) -> None:
        for group in self.driver.shard.groups.values():
            if any(m.join_token or m.sync_token for m in group.members.values()):
                assert self.driver.shard.deadline_ms() is not None


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(
    max_examples=100, derandomize=True, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.long
class TestClassicGroupsLong(ClassicGroups.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(
        max_examples=3000, stateful_step_count=120, deadline=None, suppress_health_check=list(HealthCheck)
    )

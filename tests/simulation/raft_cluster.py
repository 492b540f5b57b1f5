"""A whole quorum in one process, with clients that propose and read, and everything that can go wrong.

Each seed draws its own profile: which faults there are and how often. At the end all faults stop, and the quorum must
find a leader, commit something new, and bring every member to the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.disk import DiskFaults
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.raft_image import Snapshot
from tests.simulation.raft_member import SimulatedMember, describe_state
from tests.simulation.raft_profiles import Profile
from tests.simulation.world import Checker, Violation, World

from tidelog.raft.core.events import AddLearner, AddVoter, LeaderGone, Receive, RemoveMember, TransferLeadership
from tidelog.raft.core.members import ANY_DIRECTORY, NO_MEMBERS, Member, MemberSet
from tidelog.raft.core.messages import (
    AppendRequest,
    Message,
    Response,
    SnapshotId,
    SnapshotRequest,
    TimeoutNowRequest,
    VoteRequest,
)

NODES_MAX = 7
SETTLE_MS = 60_000.0
FOUNDED_IN_A_STORM = 0.2
"""Part of the runs."""
Respond = Callable[[Response, Member], None]


class RaftCluster:
    def __init__(
        self,
        world: World,
        checkers: Sequence[Checker],
        *,
        adjust: Callable[[Profile], Profile] = lambda drawn: drawn,
        forgets_votes: bool = False,
    ) -> None:
        """`forgets_votes` breaks every disk on purpose: terms and votes are never synced."""
        self.world = world
        world.checkers.extend(checkers)
        self.profile = adjust(Profile.draw(world))
        self.network = Network(world, self.profile.network)
        self.nodes: dict[int, SimulatedMember] = {}
        self.snapshots: dict[tuple[SnapshotId, int], Snapshot] = {}
        """Contents by what members send of them."""
        self.acknowledged = 0
        """The furthest offset that any client knows to be committed."""
        self.forgets_votes = forgets_votes
        self._directories = 0
        self._proposals = 0
        self._changes = 0
        self.faults_are_over = False
        voters = [self._new_member(node_id) for node_id in range(1, self.profile.voters + 1)]
        named = [
            member if self.profile.names_directories else Member(member.node_id, ANY_DIRECTORY) for member in voters
        ]
        for member in voters:
            self._add_node(member, MemberSet(tuple(named)))

    def _new_member(self, node_id: int) -> Member:
        self._directories += 1
        return Member(node_id, self._directories.to_bytes(16, "big"), f"host{node_id}", 9092)

    def _add_node(self, member: Member, bootstrap: MemberSet) -> SimulatedMember:
        node = SimulatedMember(self, member, bootstrap, self.profile.disk)
        node.forgets_votes = self.forgets_votes
        self.nodes[member.node_id] = node
        node.start()
        return node

    def deliver(self, source: Member, destination: Member, message: Message, respond: Respond) -> None:
        node = self.nodes.get(destination.node_id)
        if node is None or not node.is_up:
            return
        assert isinstance(message, VoteRequest | AppendRequest | SnapshotRequest | TimeoutNowRequest)
        answered = False

        def reply(response: Response) -> None:
            nonlocal answered
            assert not answered, "a request is answered once"
            answered = True
            me = node.member
            self.network.send(node.node_id, source.node_id, lambda: respond(response, me))

        node.step(
            Receive(
                source_id=source.node_id,
                source_directory=source.directory_id,
                destination_directory=destination.directory_id,
                message=message,
                reply_to=reply,
            )
        )

    # -- what happens --------------------------------------------------------------------------------------------------

    def run(self, duration_ms: float) -> None:
        profile = self.profile
        if self.world.random.random() >= FOUNDED_IN_A_STORM:
            self._found()
        self._repeat(profile.propose_ms, self._propose)
        self._repeat(profile.read_ms, self._read)
        self._repeat(profile.crash_ms, self._crash)
        self._repeat(profile.partition_ms, self._partition)
        self._repeat(profile.snapshot_ms, self._snapshot)
        self._repeat(profile.change_ms, self._change_members)
        self._repeat(profile.transfer_ms, self._transfer)
        self._repeat(profile.hint_ms, self._hint)
        self.world.run_for(duration_ms)
        self.settle()

    def _found(self) -> None:
        """All first voters have to be there for that, which takes long under faults: most runs have it behind them."""
        faults, self.network.faults = self.network.faults, NetworkFaults()
        self.faults_are_over = True
        assert self.world.run_until(lambda: self._active_leader() is not None, SETTLE_MS), "the cluster is not founded"
        self.network.faults, self.faults_are_over = faults, False

    def _repeat(self, mean_ms: float, action: Callable[[], None]) -> None:
        if mean_ms == float("inf"):
            return

        def again() -> None:
            if not self.faults_are_over:
                action()
                self.world.after(self.world.random.expovariate(1.0 / mean_ms), again)

        self.world.after(self.world.random.expovariate(1.0 / mean_ms), again)

    def leaders(self) -> list[SimulatedMember]:
        return [node for node in self.nodes.values() if node.machine is not None and node.machine.is_leader]

    def _active_leader(self) -> SimulatedMember | None:
        active = [node for node in self.leaders() if node.machine is not None and node.machine.is_active_leader]
        return max(active, key=lambda node: 0 if node.machine is None else node.machine.term, default=None)

    def _propose(self) -> None:
        self._proposals += 1
        for leader in self.leaders():
            leader.propose(b"%d@%d%c" % (self._proposals, leader.node_id, self.world.random.randrange(256)))

    def _read(self) -> None:
        for leader in self.leaders():
            leader.read()

    def _crash(self) -> None:
        random = self.world.random
        leaders = self.leaders()
        node = random.choice(leaders if leaders and random.random() < 0.5 else list(self.nodes.values()))
        for each in self.nodes.values() if random.random() < 0.1 else [node]:
            if each.is_up:
                each.crash()
                self.restart_later(each)

    def restart_later(self, node: SimulatedMember) -> None:
        incarnation = node.incarnation

        def restart() -> None:
            if node.incarnation == incarnation and self.nodes.get(node.node_id) is node:
                node.start()

        self.world.after(self.world.random.choice((1.0, 30.0, 200.0, 1500.0)), restart)

    def _partition(self) -> None:
        random = self.world.random
        self.network.heal()
        if random.random() < 0.3 or len(self.nodes) < 2:
            self.world.note("network", "heals")
            return
        ids = list(self.nodes)
        group = random.sample(ids, random.randint(1, len(ids) - 1))
        others = [node_id for node_id in ids if node_id not in group]
        one_way = random.random() < 0.4
        self.network.isolate(group, others, one_way=one_way)
        self.world.note("network", f"{group} {'cannot reach' if one_way else 'and'} {others}")

    def _snapshot(self) -> None:
        up = [node for node in self.nodes.values() if node.is_up]
        if up:
            self.world.random.choice(up).take_snapshot(keep_bytes=self.world.random.choice((0, 5, 50)))

    def _change_members(self) -> None:
        leader = self._active_leader()
        if leader is None or leader.machine is None:
            return
        random, members = self.world.random, leader.machine.members
        self._changes += 1
        node_id = random.randint(1, NODES_MAX)
        known = members.find(node_id)
        if known is None:
            member = self._fresh_node(node_id)
            if random.random() < 0.7:
                token = f"{self._changes}: add voter {node_id}"
                leader.step(AddVoter(token, member, 2000))
            else:
                token = f"{self._changes}: add learner {node_id}"
                leader.step(AddLearner(token, member))
        elif members.is_learner(node_id) and random.random() < 0.5:
            token = f"{self._changes}: promote {node_id}"
            leader.step(AddVoter(token, known, 2000))
        else:
            token = f"{self._changes}: remove {node_id}"
            leader.step(RemoveMember(token, node_id))
        self.world.note(leader, f"is asked to {token}")

    def _fresh_node(self, node_id: int) -> Member:
        """A node of that id that no configuration knows: the removed one as it is, or another with an empty disk."""
        node = self.nodes.get(node_id)
        if node is not None and any(self._may_count(other, node.member) for other in self.nodes.values()):
            return node.member
        if node is not None and node.is_up:
            node.crash()
        return self._add_node(self._new_member(node_id), NO_MEMBERS).member

    @staticmethod
    def _may_count(node: SimulatedMember, member: Member) -> bool:
        """Whether some log still names the member: its disk must not vanish."""
        image = node.disk.durable
        named = [entry.members for entry in (*image.entries, *node.disk.current.entries) if entry.members is not None]
        named += [each.snapshot.members for each in (image, node.disk.current) if each.snapshot is not None]
        named.append(node.bootstrap)
        return any(members.find(member.node_id) is not None for members in named)

    def _transfer(self) -> None:
        leader = self._active_leader()
        if leader is not None and leader.machine is not None:
            target = self.world.random.choice((None, *leader.machine.members.voter_ids))
            self.world.note(leader, f"hands over to {target}")
            leader.step(TransferLeadership(f"transfer to {target}", target))

    def _hint(self) -> None:
        """The hint may be right or wrong, and come to one or to all."""
        random = self.world.random
        up = [node for node in self.nodes.values() if node.machine is not None]
        for node in up if random.random() < 0.5 else random.sample(up, min(1, len(up))):
            if node.machine is not None:
                self.world.note(node, f"sees node {node.machine.leader_id} gone")
                node.step(LeaderGone(node.machine.leader_id))

    # -- the end -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: the quorum must get everywhere, and all its members must agree."""
        self.faults_are_over = True
        self.network.calm()
        self.world.note("network", "calms down")
        for node in self.nodes.values():
            node.disk.faults = DiskFaults()
            if not node.is_up:
                node.start()
        if not self.world.run_until(lambda: self._active_leader() is not None, SETTLE_MS):
            raise Violation(f"no leader, although nothing fails any more\n{describe_state(list(self.nodes.values()))}")
        before = self.acknowledged

        def progresses() -> bool:
            self._propose()
            return self.acknowledged > before

        if not self.world.run_until(progresses, SETTLE_MS):
            raise Violation(f"nothing is committed any more\n{describe_state(list(self.nodes.values()))}")
        if not self.world.run_until(self._agree, SETTLE_MS):
            raise Violation(f"members do not catch up\n{describe_state(list(self.nodes.values()))}")

    def _agree(self) -> bool:
        leader = self._active_leader()
        if leader is None or leader.machine is None:
            return False
        ids = [member.node_id for member in leader.machine.members]
        states = {(self.nodes[node_id].applied_offset, self.nodes[node_id].digest) for node_id in ids}
        return len(states) == 1 and leader.applied_offset == leader.machine.log.end_offset

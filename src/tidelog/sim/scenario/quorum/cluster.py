"""A quorum in memory. Every public call is a step: something happens, who it concerns reacts, invariants are checked.

Time moves only by `advance`, a message arrives only by `deliver`: whoever drives decides the order of everything.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.outbox import Parked
from tidelog.quorum.raft import Raft
from tidelog.quorum.raft_config import RaftConfig
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, ReplicaKey, Voter, VoterSet
from tidelog.sim.scenario.quorum.disk import WatchedDisk
from tidelog.sim.scenario.quorum.history import CommittedHistory
from tidelog.sim.scenario.quorum.invariants import Invariant, all_invariants
from tidelog.sim.scenario.quorum.member import Member, wall_ms
from tidelog.sim.scenario.quorum.messages import Body, promise, through_the_wire, told
from tidelog.sim.scenario.quorum.network import Call, Network, Packet
from tidelog.sim.scenario.quorum.observer import Observer
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

# A member that talks to itself for ever has a bug; so has a quorum that sends messages for ever in no time.
_MAX_REACTIONS: Final = 1000
_MAX_MESSAGES: Final = 10_000
# Whoever is no member.
CLIENT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Who is there, and who votes at first. `voters_in_log` is kraft.version 1."""

    nodes: tuple[int, ...]
    voters: tuple[int, ...]
    seed: int = 0
    voters_in_log: bool = False
    auto_flush: bool = True
    raft: RaftConfig = field(default_factory=RaftConfig)
    log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    make_disk: Callable[[], WatchedDisk] = WatchedDisk


class QuorumCluster:
    """`tell` gets a line for everything that happens."""

    def __init__(
        self, config: ClusterConfig, tell: Callable[[str], None], invariants: Sequence[Invariant] | None = None
    ) -> None:
        self.config = config
        self.now_s = 0.0
        self.network = Network()
        self.history = CommittedHistory()
        self.members = {
            node: Member(node, UUID(int=node), config.make_disk(), random.Random(f"{config.seed}-{node}"))
            for node in config.nodes
        }
        self.auto_flush = config.auto_flush
        self._tell = tell
        self._observer = Observer(tell)
        self._invariants = all_invariants() if invariants is None else invariants
        self._poll_at_s: dict[int, float] = {}
        self._parked: dict[Parked, Call] = {}
        # Down, and nobody is told: what is sent there vanishes.
        self._silent: set[int] = set()

    def is_leader(self, node: int) -> bool:
        raft = self.members[node].raft
        return raft is not None and raft.is_leader

    # --- processes ---

    def start(self, node: int) -> None:
        member = self.members[node]
        assert member.raft is None, f"{node} runs already"
        self._silent.discard(node)
        if member.incarnation == 0:
            member.format(self._first_voters() if node in self.config.voters else None, self.now_s)
        member.start(
            self.config.raft,
            self.config.log,
            None if self.config.voters_in_log else self._first_voters(),
            self.config.voters,
            self.now_s,
        )
        self._after(node)

    def kill(self, node: int, *, silent: bool = False) -> None:
        """The process ends; what it wrote stays. Connections break and are refused, unless `silent`: as if the whole
        machine were gone, nobody hears of it."""
        self.members[node].raft = None
        self.members[node].flushing = None
        del self._poll_at_s[node]
        self._parked = {parked: call for parked, call in self._parked.items() if call.target != node}
        self.network.forget(node)
        self._after(node)
        if silent:
            self._silent.add(node)
        else:
            self._break_connections(node)

    def crash(self, node: int, rng: random.Random, *, silent: bool = False) -> None:
        """Power fails: what was not synced is gone, or what the generator leaves of it."""
        self.members[node].disk.crash(rng, lose_entries=True)
        self.kill(node, silent=silent)

    def resign(self, node: int) -> None:
        """The first half of an orderly end: a leader tells the others that its epoch is over."""
        self._running(node).begin_shutdown()
        self._after(node)

    def _break_connections(self, node: int) -> None:
        for source in sorted({call.source for call in self.network.calls_to(node)}):
            self.network.end_calls(source, node)
            self._tell(f"{source}: connection to {node} lost")
            self._running(source).on_disconnect(node, False, self.now_s)
            self._after(source)

    # --- time ---

    def next_wake_s(self) -> float:
        """When somebody acts by itself."""
        return min(self._poll_at_s.values(), default=float("inf"))

    def advance(self, until_s: float) -> None:
        """Time passes; whoever is due acts, each at its own instant."""
        while (wake_s := self.next_wake_s()) <= until_s:
            self.now_s = max(self.now_s, wake_s)
            self._after(*(node for node, at_s in self._poll_at_s.items() if at_s <= self.now_s))
            stuck = [node for node, at_s in self._poll_at_s.items() if at_s <= self.now_s]
            assert not stuck, f"polled at {self.now_s}, {stuck} want to be polled again at once"
        self.now_s = max(self.now_s, until_s)

    def settle(self) -> None:
        """Messages arrive until none is on its way that may arrive yet."""
        for _ in range(_MAX_MESSAGES):
            ready = next((each for each in self.network.packets if each.not_before_s <= self.now_s), None)
            if ready is None:
                return
            self.deliver(ready)
        raise AssertionError(f"after {_MAX_MESSAGES} messages in one instant there are more")

    def run_for(self, seconds: float) -> None:
        """Time passes and the network works: every message arrives at once, or when its delay is over."""
        until_s = self.now_s + seconds
        self.settle()
        while self.now_s < until_s:
            delayed = (each.not_before_s for each in self.network.packets)
            self.advance(min(self.next_wake_s(), *delayed, until_s))
            self.settle()

    # --- messages ---

    def deliver(self, packet: Packet) -> None:
        self.network.packets.remove(packet)
        receiver, call = self.members[packet.target], packet.call
        if receiver.raft is None:
            self._refuse(packet)
        elif packet.is_response:
            # Of a connection that broke meanwhile, or of an earlier life, there is no response.
            if call.number in self.network.calls:
                receiver.raft.on_response(packet.source, call.request, packet.body, self.now_s)
                self._after(receiver.id)
        else:
            self._receive(receiver, receiver.raft, call, packet.body)

    def ask(self, node: int, request: Body) -> None:
        """A client's request, over a connection that loses nothing; its answer is told."""
        self._tell(f"client->{node} {told(request)}")
        call = Call(0, CLIENT, node, request)
        self._receive(self.members[node], self._running(node), call, through_the_wire(request))

    def _receive(self, member: Member, raft: Raft, call: Call, request: Body) -> None:
        answer = raft.receive(call.source, request, self.now_s)
        if isinstance(answer, Parked):
            self._parked[answer] = call
        else:
            self._answer(member, call, answer)
        self._after(member.id)

    def _refuse(self, packet: Packet) -> None:
        """Nobody listens: the one who asked hears of it, if it still runs."""
        call = packet.call
        if packet.is_response or call.number not in self.network.calls or call.target in self._silent:
            return
        self.network.end_calls(call.source, call.target)
        self._tell(f"{call.source}: connection to {call.target} refused")
        self._running(call.source).on_disconnect(call.target, True, self.now_s)
        self._after(call.source)

    def drop(self, packet: Packet) -> None:
        """Lost; its sender gives up after a while."""
        self.network.packets.remove(packet)

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        for source, target in pairs:
            for packet in self.network.cut(source, target):
                self._tell(f"lost {packet}")

    def _answer(self, member: Member, call: Call, response: Body) -> None:
        self._observer.look((member,))
        if call.source == CLIENT:
            self._tell(f"{member.id}->client {told(response)}")
            return
        member.sent.append(promise(response, call.request))
        self._told(self.network.answer(call, response, self.now_s), call.target, call.source, response)

    def _told(self, packet: Packet | None, source: int, target: int, body: Body) -> None:
        self._tell(f"lost {source}->{target} {told(body)}" if packet is None else str(packet))

    # --- the user's side ---

    def append(self, node: int, values: Sequence[str]) -> int:
        """One batch at a leader; its last offset. NotLeader if it is none."""
        last = self._running(node).append([value.encode() for value in values], wall_ms(self.now_s))
        self._after(node)
        return last

    def needs_flush(self, node: int) -> bool:
        return self._running(node).needs_flush

    def begin_flush(self, node: int) -> None:
        """What the flush covers is decided here; it counts once the flush has ended."""
        self.members[node].flushing = self._running(node).begin_flush()
        self._after(node)

    def end_flush(self, node: int) -> None:
        member = self.members[node]
        assert member.flushing is not None
        task, member.flushing = member.flushing, None
        task.run()
        self._running(node).on_flushed(task, wall_ms(self.now_s))
        self._after(node)

    def flush_from_now_on(self) -> None:
        """Whatever needs it, at once."""
        self.auto_flush = True
        self._after(*(node for node, member in self.members.items() if member.raft is not None))

    def snapshot(self, node: int) -> None:
        """Of everything the member has applied."""
        self.members[node].write_snapshot(self.now_s)
        self._after(node)

    def add_voter(self, leader: int, node: int) -> None:
        self.ask(leader, AddRaftVoterRequest(voter_id=node, voter_directory_id=self.members[node].directory_id))

    def remove_voter(self, leader: int, node: int) -> None:
        self.ask(leader, RemoveRaftVoterRequest(voter_id=node, voter_directory_id=self.members[node].directory_id))

    # --- reactions ---

    def _after(self, *nodes: int) -> None:
        """Those that something happened to do what they have to do now; then the invariants."""
        touched = [self.members[node] for node in nodes]
        for member in touched:
            rounds = 0
            while member.raft is not None and self._react(member, member.raft):
                rounds += 1
                assert rounds < _MAX_REACTIONS, f"after {rounds} rounds {member.id} still reacts to nothing"
        # Those that run have been looked at when they last reacted.
        self._observer.look(member for member in touched if member.raft is None)
        for invariant in self._invariants:
            invariant.check(self, touched)

    def _react(self, member: Member, raft: Raft) -> bool:
        """Whether there was anything to do."""
        busy = False
        if self.auto_flush and raft.needs_flush:
            task = raft.begin_flush()
            task.run()
            raft.on_flushed(task, wall_ms(self.now_s))
            busy = True
        for completed in raft.completed_fetches(self.now_s):
            self._answer(member, self._parked.pop(completed.parked), completed.response)
            busy = True
        outbox = raft.poll(self.now_s)
        self._observer.look((member,))
        for send in outbox.sends:
            call = self.network.open_call(member.id, send.to, send.request)
            member.sent.append(promise(send.request))
            self._told(self.network.send(call, self.now_s), member.id, send.to, send.request)
            busy = True
        self._poll_at_s[member.id] = outbox.poll_at_s
        member.apply_committed()
        return busy

    def _running(self, node: int) -> Raft:
        raft = self.members[node].raft
        assert raft is not None, f"{node} is down"
        return raft

    def _first_voters(self) -> VoterSet:
        if not self.config.voters_in_log:
            return VoterSet.of(Voter(ReplicaKey(node)) for node in self.config.voters)
        keys = (ReplicaKey(node, self.members[node].directory_id) for node in self.config.voters)
        return VoterSet.of((Voter(key) for key in keys), KRAFT_VERSION_RECONFIGURABLE)

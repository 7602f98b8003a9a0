"""A few members of a quorum whose messages arrive at once, unless a link is cut; no more than tables of cases need."""

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tidelog.quorum.formatting import format_metadata_dir
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Completed, Parked, Raft, RaftConfig
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.codec import read_message, write_message

DIR = "/data"
LISTENER = "CONTROLLER"
CONFIG = RaftConfig(listener_name=LISTENER)
# The versions that members speak among themselves.
VERSIONS = {"Vote": 2, "BeginQuorumEpoch": 1, "EndQuorumEpoch": 1, "Fetch": 17, "FetchSnapshot": 1}


def directory_id(node: int) -> UUID:
    return UUID(int=1000 + node)


def endpoints(node: int) -> tuple[tuple[str, str, int], ...]:
    return ((LISTENER, f"host{node}", 9000 + node),)


def static(nodes: Iterable[int]) -> VoterSet:
    return VoterSet.of(Voter(ReplicaKey(node), endpoints(node)) for node in nodes)


def dynamic(nodes: Iterable[int]) -> VoterSet:
    return VoterSet.of((Voter(ReplicaKey(node, directory_id(node)), endpoints(node)) for node in nodes), 1)


def over_the_wire(message: Any) -> Any:
    """What arrives is what the codec makes of it."""
    name = type(message).__name__.removesuffix("Request").removesuffix("Response")
    version = VERSIONS.get(name, 0)
    return read_message(type(message), version, write_message(message, version))


class World:
    """`nodes` are started at 1.0 s; `voters` among them vote."""

    def __init__(
        self,
        nodes: Iterable[int],
        voters: VoterSet,
        *,
        config: RaftConfig = CONFIG,
        log_config: MetadataLogConfig | None = None,
        seed: int = 7,
    ) -> None:
        self.now_s = 1.0
        self.voters = voters
        self.config = config
        self.log_config = log_config or MetadataLogConfig()
        self.seed = seed
        self.disks: dict[int, MemoryDisk] = {}
        self.rafts: dict[int, Raft] = {}
        # Links that lose what is sent, and nodes whose port is closed.
        self.cut: set[frozenset[int]] = set()
        self.sent: list[tuple[int, int, Any]] = []
        self._parked: dict[Parked, tuple[int, int, Any]] = {}
        # Answers to whoever is no member, and endpoints that are not the first ones.
        self.client_answers: dict[Parked, Any] = {}
        self.moved: dict[int, tuple[tuple[str, str, int], ...]] = {}
        for node in nodes:
            self.disks[node] = MemoryDisk()
            self.disks[node].make_dirs(DIR)
            self.disks[node].fsync_dir("/")
            if voters.kraft_version and node in voters.ids:
                format_metadata_dir(self.disks[node], DIR, (), voters=voters, now_ms=1)
            self.start(node)

    def start(self, node: int) -> Raft:
        self.rafts[node] = Raft.open(
            self.disks[node],
            DIR,
            node_id=node,
            directory_id=directory_id(node),
            config=self.config,
            log_config=self.log_config,
            static_voters=None if self.voters.kraft_version else self.voters,
            rng=random.Random(self.seed * 1000 + node),
            now_ms=self.now_ms,
            now_s=self.now_s,
            cluster_id="cluster",
            endpoints=self.moved.get(node, endpoints(node)),
            bootstrap=tuple(self.voters.ids),
        )
        return self.rafts[node]

    def kill(self, node: int, *, power: bool = False) -> None:
        """Its connections break, and its port is closed from then on."""
        del self.rafts[node]
        for parked, (source, to, _) in list(self._parked.items()):
            if node in (source, to):
                del self._parked[parked]
                if source in self.rafts:
                    self.rafts[source].on_disconnect(node, False, self.now_s)
        if power:
            self.disks[node].crash(random.Random(node))

    def isolate(self, node: int) -> None:
        self.cut |= {frozenset((node, other)) for other in self.disks if other != node}

    def heal(self) -> None:
        self.cut.clear()

    @property
    def leaders(self) -> list[int]:
        return [node for node, raft in self.rafts.items() if raft.is_leader]

    @property
    def leader(self) -> Raft:
        (node,) = self.leaders
        return self.rafts[node]

    # --- time ---

    def settle(self) -> float:
        """Everybody acts until nobody has anything to do now; when the next one has."""
        for _ in range(1000):
            sent, next_s = False, float("inf")
            for node in sorted(self.rafts):
                outbox = self.rafts[node].poll(self.now_s)
                next_s = min(next_s, outbox.poll_at_s)
                for send in outbox.sends:
                    sent = True
                    self._deliver(node, send.to, send.request)
            for node in sorted(self.rafts):
                sent |= self._act(node)
            for raft in self.rafts.values():
                raft.check_invariants()
            if not sent:
                return next_s
        raise AssertionError("it never ends")

    def run(self, seconds: float) -> None:
        end = self.now_s + seconds
        while (next_s := self.settle()) < end:
            self.now_s = max(next_s, self.now_s + 0.0001)
        self.now_s = end
        self.settle()

    def run_until_leader(self, seconds: float = 10.0) -> Raft:
        end = self.now_s + seconds
        while not (len(self.leaders) == 1 and self.leader.high_watermark >= self.leader.next_offset):
            assert self.now_s < end, {node: raft.role for node, raft in self.rafts.items()}
            self.run(0.01)
        return self.leader

    def _act(self, node: int) -> bool:
        raft = self.rafts[node]
        acted = False
        if raft.needs_flush:
            task = raft.begin_flush()
            task.run()
            raft.on_flushed(task, self.now_ms)
            acted = True
        for done in raft.completed_fetches(self.now_s):
            self._answer(done)
            acted = True
        return acted

    @property
    def now_ms(self) -> int:
        return 1_000_000 + round(self.now_s * 1000)

    # --- messages ---

    def _deliver(self, source: int, to: int, request: Any) -> None:
        self.sent.append((source, to, request))
        if frozenset((source, to)) in self.cut:
            return
        if to not in self.rafts:
            self.rafts[source].on_disconnect(to, True, self.now_s)
            return
        answer = self.rafts[to].receive(source, over_the_wire(request), self.now_s)
        if isinstance(answer, Parked):
            self._parked[answer] = (source, to, request)
        else:
            self._respond(source, to, request, answer)

    def _answer(self, done: Completed) -> None:
        if done.parked in self._parked:
            source, to, request = self._parked.pop(done.parked)
            self._respond(source, to, request, done.response)
        else:
            self.client_answers[done.parked] = done.response

    def _respond(self, source: int, to: int, request: Any, response: Any) -> None:
        if source in self.rafts and frozenset((source, to)) not in self.cut:
            self.rafts[source].on_response(to, request, over_the_wire(response), self.now_s)

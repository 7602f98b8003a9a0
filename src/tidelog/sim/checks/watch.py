"""The onlooker: looks into the nodes of a simulated cluster whenever something may have changed, and judges.

A moment between two callbacks is a consistent view of the whole cluster. What can change an answer marks its partition:
an append or a cut (told by the disk), published metadata, the end of a process; high watermarks and roles are found by
a tick of virtual time. A leader's high watermark only grows while it leads, so a last look before it ends or changes
misses nothing of what it exposed.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.core.events import FollowingStarted, IsrChangeProposed, LogDirectoryOffline
from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID, TopicPartition
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, BrokerRegistration, ClusterImage, PartitionRegistration
from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.sim.checks.finding import Replicas
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.invariant import Invariant, InvariantBroken
from tidelog.sim.checks.leaders import Epochs, HighWatermark, QuorumSuperset
from tidelog.sim.checks.logs import Idempotence, Offsets
from tidelog.sim.checks.look import PartitionLook, ReplicaLook
from tidelog.sim.checks.metadata import (
    ElectionAllowed,
    Metadata,
    MetadataEpochs,
    Reassignment,
    Rules,
    UncleanExclusion,
    changed,
    is_unclean,
)
from tidelog.sim.checks.quorum import CutOffLeader, Member, Quorum
from tidelog.sim.checks.replicas import (
    CandidateCompleteness,
    GloballyDurable,
    LeaderCompleteness,
    LogMatching,
    StrongIsr,
)
from tidelog.sim.checks.steps import steps_to
from tidelog.sim.checks.told import Told
from tidelog.sim.cluster import SimCluster, SimNode
from tidelog.sim.machine import State
from tidelog.sim.trace import REPLICA, Trace
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN, LEADER_EPOCH_CHECKPOINT
from tidelog.storage.log_names import partition_of

TICK_S: Final = 0.05
STALE_CHECKPOINT: Final = "stale_checkpoint"
UNCLEAN_ELECTION: Final = "unclean_election"
"""The fault that is an administrator who asks for one."""
ASKED_S: Final = 30.0
"""How long such a request may be on its way: links are cut and processes stand still for less."""
# Faults after which nothing on a disk says that its process ended in order, although it did.
UNMARKED: Final = ("lose_mark", "wipe_stopped", "new_disk")

# Of one partition in the newest image: topic id, history, registration, effective min ISR.
_Committed: TypeAlias = tuple[UUID, PartitionHistory, PartitionRegistration, int]


class Watch(Told):
    """One run of one cluster. The first invariant that breaks is `failure`; after it nothing is judged any more."""

    def __init__(self, cluster: SimCluster, trace: Trace) -> None:
        self._cluster = cluster
        self._trace = trace
        self.on_unclean: Callable[[TopicPartition], None] = lambda partition: None
        config = next(node.config for node in cluster.nodes.values())
        self._rules = Rules(config)
        self.image: ClusterImage = EMPTY_IMAGE
        self.failure: asyncio.Future[InvariantBroken] = cluster.loop.create_future()
        self._where: list[str] = []
        """What was looked at when it failed, in words."""
        self._quorum = Quorum()
        self._cut_off = CutOffLeader(1.5 * config.controller_quorum_fetch_timeout_ms / 1000)
        candidates = CandidateCompleteness()
        self._invariants: Sequence[Invariant] = (
            LeaderCompleteness(),
            candidates,
            StrongIsr(),
            QuorumSuperset(),
            LogMatching(),
            GloballyDurable(),
            HighWatermark(),
            Epochs(),
            Offsets(),
            Idempotence(),
        )
        self._metadata_invariants: Sequence[Invariant] = (
            Metadata(self._rules),
            MetadataEpochs(),
            UncleanExclusion(self._began_after_unclean_end, candidates.proposed_epoch),
            ElectionAllowed(self._rules, self._may_count_as_unclean, self._is_unclean_asked_for),
            Reassignment(self._rules),
        )
        self._found = Replicas(cluster)
        self._committed: dict[TopicPartition, _Committed | None] = {}
        self._ended_unclean: dict[int, None] = {}
        self._offline_in: dict[int, int] = {}
        """The process of each node in which a log directory failed last."""
        self._marked_in: dict[int, int] = {}
        """The process of each node that last marked its end as an orderly one."""
        self._began: dict[UUID, tuple[bool, bool]] = {}
        """Of the processes that are gone: whether the one before ended without order, and whether it may count so."""
        self._marked: dict[TopicPartition, None] = {}
        self._looked_at: dict[TopicPartition, None] = {}
        """Since the last tick."""
        self._named: dict[str, TopicPartition | None] = {}
        self._members: dict[int, Member] = {}
        self._flush_due = False
        self._unclean_asked_s = -math.inf
        """When an administrator last asked for unclean elections."""
        self._ticked_at = -1
        for node_id, node in cluster.nodes.items():
            node.machine.disk.on_write = self._writer(node_id)
            node.machine.before_end = self._ender(node)
        cluster.loop.call_later(TICK_S, self._tick)

    # --- what is heard ------------------------------------------------------------------------------------------------

    def _writer(self, node_id: int) -> Callable[[str], None]:
        def on_write(path: str) -> None:
            if path.endswith(".log"):
                directory = path.rpartition("/")[0]
                if directory not in self._named:
                    self._named[directory] = partition_of(directory.rpartition("/")[2])
                partition = self._named[directory]
                if partition is not None and partition.topic != METADATA_TOPIC:
                    self._mark(partition)
            elif path.endswith(CLEAN_SHUTDOWN):
                self._marked_in[node_id] = self._cluster.machine(node_id).starts
            elif path.endswith(QUORUM_STATE):
                try:
                    self._quorum.on_vote_stored(node_id, self._cluster.machine(node_id).disk.peek(path, 0, 1 << 20))
                except InvariantBroken as broken:
                    self._fail(broken, None)

        return on_write

    def _ender(self, node: SimNode) -> Callable[[], None]:
        def before_end() -> None:
            self._found.on_end(node.node_id)
            if node.node is not None and node.node._role is not None:
                # Its registration may still be on its way, and says how the process before it ended.
                began = (node.node_id in self._ended_unclean, self._may_have_ended_unclean(node.node_id))
                self._began[node.node._role._incarnation_id] = began
            disk, config = node.machine.disk, node.config
            marked = all(disk.peek(f"{directory}/{CLEAN_SHUTDOWN}", 0, 1) for directory in config.log_dirs)
            if not marked:
                self._ended_unclean[node.node_id] = None
            elif self._marked_in.get(node.node_id) == node.machine.starts:
                self._ended_unclean.pop(node.node_id, None)
            # Else it has not come to take away the marks that it found, which may be false.

        return before_end

    def on_metadata(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        """`SimCluster.on_metadata`: before the node itself acts on it."""
        if self.failure.done():
            return
        for changed_topic in delta.topics.values():
            for index in changed_topic.partitions:
                replica = self._found.of.get(TopicPartition(changed_topic.after.name, index), {}).get(node_id)
                if replica is not None and replica.alive:
                    self._found.note_exposure(replica)
        try:
            self._look_at_quorum()
            self._quorum.on_image(node_id, image)
            if image.provenance.offset > self.image.provenance.offset:
                for step in steps_to(image, self.image, self._quorum.log_of(node_id)):
                    before, self.image = self.image, step
                    self._committed.clear()
                    for invariant in self._metadata_invariants:
                        invariant.on_metadata(before, step)
                    self._begin_eras(before, step)
        except InvariantBroken as broken:
            self._fail(broken, None)
            return
        self._found.look_again([node_id])
        for changed_topic in delta.topics.values():
            for index in changed_topic.partitions:
                self._mark(TopicPartition(changed_topic.after.name, index))
        if delta.brokers:
            self._found.look_again(self._cluster.nodes)
            for partition in self._found.of:
                self._mark(partition)

    def on_snapshot(self, node_id: int, image: ClusterImage) -> None:
        """The node has written a snapshot, or fetched one: this is what it says."""
        try:
            self._quorum.on_image(node_id, image)
        except InvariantBroken as broken:
            self._fail(broken, None)

    def on_event(self, event: str, fields: dict[str, object]) -> None:
        """What the trace tells: an ISR that is to grow, a leader that stepped down, damage that was done on purpose."""
        if event == IsrChangeProposed.kind:
            self._mark(_partition_in(fields))
            return
        if event == FollowingStarted.kind:
            # Some time after it told of the metadata, if it is slow: what it has shown since is lowered by what its new
            # leader tells it.
            replica = self._found.of.get(_partition_in(fields), {}).get(int(str(fields["node"])))
            if replica is not None and replica.alive and replica.last_leader is not None:
                self._found.note_exposure(replica)
            return
        if event == LogDirectoryOffline.kind:
            node = int(str(fields["node"]))
            self._offline_in[node] = self._cluster.machine(node).starts
            return
        if UNCLEAN_ELECTION in (event, fields.get("fault")):
            self._unclean_asked_s = self._cluster.loop.time()
        path, node_id = fields.get("path"), fields.get("node")
        if event in UNMARKED and isinstance(node_id, int):
            self._ended_unclean[node_id] = None
        if event != STALE_CHECKPOINT:
            # What is lost is made again from the batches.
            return
        if isinstance(path, str) and isinstance(node_id, int) and path.endswith(LEADER_EPOCH_CHECKPOINT):
            partition = partition_of(path.split("/")[-2])
            if partition is not None:
                self._found.on_epochs_lost(node_id, partition)

    @property
    def truncations(self) -> int:
        """Of all logs so far."""
        return self._found.truncations

    def looks(self) -> list[PartitionLook]:
        """Every partition as it is now."""
        there = (
            TopicPartition(topic.name, index)
            for topic in self.image.topics_by_id.values()
            for index in topic.partitions
        )
        # Also those that nobody has a log of.
        found = [self._look_of(partition) for partition in dict.fromkeys((*self._found.of, *there))]
        return [look for look in found if look is not None]

    def everything(self) -> list[str]:
        """All that there is to see, in words: for a failure that is not about one partition."""
        members = [member.describe() for member in self._members.values()]
        return members + [line for look in self.looks() for line in look.describe()]

    # --- looking ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.failure.done():
            return
        steps = self._cluster.loop.steps
        if steps == self._ticked_at + 1:
            # Nothing but this has run since the last one, so nothing is new.
            self._ticked_at = steps
            self._cluster.loop.call_later(TICK_S, self._tick)
            return
        self._ticked_at = steps
        try:
            self._look_at_quorum()
        except InvariantBroken as broken:
            self._fail(broken, None)
            return
        self._found.find_changed(self.image)
        for partition, replicas in self._found.of.items():
            for replica in replicas.values():
                if replica.alive and replica.has_moved():
                    self._marked[partition] = None
                    break
        self._flush()
        self._tell_what_moved()
        self._cluster.loop.call_later(TICK_S, self._tick)

    def _tell_what_moved(self) -> None:
        """LEO, HW and role of every replica for which one of them is new since the last tick."""
        looked_at, self._looked_at = self._looked_at, {}
        for partition in looked_at:
            for replica in self._found.of.get(partition, {}).values():
                fields = replica.told_of()
                if replica.alive and fields != replica.told:
                    replica.told = fields
                    self._trace.record(
                        REPLICA,
                        "moved",
                        node=replica.node_id,
                        topic=partition.topic,
                        partition=partition.partition,
                        role=fields[0],
                        leader_epoch=fields[1],
                        log_start_offset=fields[2],
                        log_end_offset=fields[3],
                        high_watermark=fields[4],
                    )

    def _mark(self, partition: TopicPartition) -> None:
        self._marked[partition] = None
        if not self._flush_due:
            self._flush_due = True
            self._cluster.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        marked, self._marked = self._marked, {}
        for partition in marked:
            self._look(partition)

    def _look(self, partition: TopicPartition) -> None:
        if self.failure.done():
            return
        look = self._look_of(partition)
        if look is None:
            return
        self._looked_at[partition] = None
        for replica in look.replicas:
            if replica.alive:
                self._found.note_exposure(replica)
                replica.seen = replica.state()
        for invariant in self._invariants:
            try:
                invariant.on_partition(look)
            except InvariantBroken as broken:
                self._fail(broken, look)
                return

    def _look_of(self, partition: TopicPartition) -> PartitionLook | None:
        if partition not in self._committed:
            self._committed[partition] = self._committed_of(partition)
        committed = self._committed[partition]
        if committed is None:
            return None
        topic_id, history, registration, effective_min_isr = committed
        self._found.find_stale(partition, self.image)
        replicas: list[ReplicaLook] = []
        for replica in self._found.of.get(partition, {}).values():
            if replica.partition is None and replica.alive:
                self._found.find_role(replica)
            its_id = replica.log.topic_id
            if its_id is topic_id or its_id is None or its_id == topic_id:
                replica.running = replica.is_running
                replicas.append(replica)
        return PartitionLook(partition, topic_id, history, self.image, registration, effective_min_isr, replicas)

    def _committed_of(self, partition: TopicPartition) -> _Committed | None:
        """What the newest image says of it; the same until there is a newer one."""
        registration = self.image.partition(partition)
        topic = self.image.topic(partition.topic)
        if registration is None or topic is None:
            return None
        history = self._history(partition)
        for member in registration.isr:
            history.trusted[member] = None
        effective_min_isr = self._rules(self.image, topic).effective_min_isr(registration.replicas)
        return topic.topic_id, history, registration, effective_min_isr

    def _history(self, partition: TopicPartition) -> PartitionHistory:
        """Of the topic that has this name now."""
        topic = self.image.topic(partition.topic)
        return self._found.history_of(ZERO_UUID if topic is None else topic.topic_id, partition.partition)

    def _begin_eras(self, before: ClusterImage, after: ClusterImage) -> None:
        for change in changed(before, after):
            if is_unclean(change.before, change.after):
                history = self._found.history_of(change.topic.topic_id, change.index)
                history.begin_era(change.after.leader_epoch, change.after.leader)
                self.on_unclean(TopicPartition(change.topic.name, change.index))

    def _began_after_unclean_end(self, registered: BrokerRegistration) -> bool:
        """Whether the process that registered found the disk of one that ended without order."""
        known = self._began.get(registered.incarnation_id)
        return registered.broker_id in self._ended_unclean if known is None else known[0]

    def _may_count_as_unclean(self, registered: BrokerRegistration) -> bool:
        """Whether its registration may say so: also where it cannot read what a directory tells of its last end."""
        known = self._began.get(registered.incarnation_id)
        return self._may_have_ended_unclean(registered.broker_id) if known is None else known[1]

    def _may_have_ended_unclean(self, node_id: int) -> bool:
        starts = self._cluster.machine(node_id).starts
        return node_id in self._ended_unclean or self._offline_in.get(node_id, -1) >= starts - 1

    def _is_unclean_asked_for(self) -> bool:
        return self._cluster.loop.time() - self._unclean_asked_s < ASKED_S

    def _look_at_quorum(self) -> None:
        members: list[Member] = []
        for node_id, node in self._cluster.nodes.items():
            running = node.node
            if running is None or (control := running.control) is None:
                continue
            raft, known = control.raft, self._members.get(node_id)
            if known is None or known.raft is not raft:
                known = self._members[node_id] = Member(node_id, node.machine.starts, raft, self._found.disks[node_id])
            members.append(known)
        self._quorum.on_members(members)
        paused = [node_id for node_id, node in self._cluster.nodes.items() if node.machine.state is State.PAUSED]
        self._cut_off.on_members(members, paused, self._cluster.loop.time())

    def _fail(self, broken: InvariantBroken, look: PartitionLook | None) -> None:
        if not self.failure.done():
            self._where = self.describe(broken) if look is None else look.describe()
            self.failure.set_result(broken)

    def describe(self, broken: InvariantBroken) -> list[str]:
        """The state around a failure: as it was when it failed, or as it is if nobody had seen it until now."""
        if self.failure.done():
            return self._where
        look = None if broken.partition is None else self._look_of(broken.partition)
        return [member.describe() for member in self._members.values()] if look is None else look.describe()


def _partition_in(fields: dict[str, object]) -> TopicPartition:
    return TopicPartition(str(fields["topic"]), int(str(fields["partition"])))

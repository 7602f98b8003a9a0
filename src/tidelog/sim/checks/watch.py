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

from tidelog.broker.node import Node
from tidelog.core.events import IsrChangeProposed
from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID, TopicIdPartition, TopicPartition
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, PartitionRegistration
from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.replication.roles import Leader, Offline
from tidelog.sim.checks.clients import ConsistentRead, GroupCommits
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
from tidelog.sim.checks.mirror import LogMirror
from tidelog.sim.checks.quorum import CutOffLeader, Member, Quorum
from tidelog.sim.checks.replicas import (
    CandidateCompleteness,
    GloballyDurable,
    LeaderCompleteness,
    LogMatching,
    StrongIsr,
)
from tidelog.sim.checks.steps import steps_to
from tidelog.sim.cluster import SimCluster, SimNode
from tidelog.sim.disk import SimDisk
from tidelog.sim.machine import State
from tidelog.sim.trace import REPLICA, Trace
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN, LEADER_EPOCH_CHECKPOINT
from tidelog.storage.log import Log
from tidelog.storage.log_names import partition_of

TICK_S: Final = 0.05
UNCLEAN_ELECTION: Final = "unclean_election"
"""The fault that is an administrator who asks for one."""
ASKED_S: Final = 30.0
"""How long such a request may be on its way: links are cut and processes stand still for less."""
# Faults after which nothing on a disk says that its process ended in order, although it did.
UNMARKED: Final = ("lose_mark", "wipe_stopped", "new_disk")

# Of one partition in the newest image: topic id, history, registration, effective min ISR.
_Committed: TypeAlias = tuple[UUID, PartitionHistory, PartitionRegistration, int]


class Watch:
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
        self.truncations = 0
        self._quorum = Quorum()
        self._cut_off = CutOffLeader(1.5 * config.controller_quorum_fetch_timeout_ms / 1000)
        self._invariants: Sequence[Invariant] = (
            LeaderCompleteness(),
            CandidateCompleteness(),
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
            UncleanExclusion(lambda node_id: node_id in self._ended_unclean),
            ElectionAllowed(self._rules, lambda node_id: node_id in self._ended_unclean, self._is_unclean_asked_for),
            Reassignment(self._rules),
        )
        self._histories: dict[TopicIdPartition, PartitionHistory] = {}
        self._committed: dict[TopicPartition, _Committed | None] = {}
        self._replicas: dict[TopicPartition, dict[int, ReplicaLook]] = {}
        self._ended_unclean: dict[int, None] = {}
        self._lost_epochs: dict[tuple[int, TopicPartition], int | None] = {}
        """Where a file of leader epochs was damaged: the end of the log that was loaded with it, once it is loaded."""
        self._marked: dict[TopicPartition, None] = {}
        self._looked_at: dict[TopicPartition, None] = {}
        """Since the last tick."""
        self._named: dict[str, TopicPartition | None] = {}
        self._stale: dict[int, None] = {}
        """Nodes whose logs and registration have to be looked for again."""
        self._found: dict[int, tuple[object, object, object]] = {}
        self._members: dict[int, Member] = {}
        self._flush_due = False
        self._unclean_asked_s = -math.inf
        """When an administrator last asked for unclean elections."""
        self._ticked_at = -1
        self._disks = {node_id: _disk_of(node) for node_id, node in cluster.nodes.items()}
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
            elif path.endswith(QUORUM_STATE):
                try:
                    self._quorum.on_vote_stored(node_id, self._cluster.machine(node_id).disk.peek(path, 0, 1 << 20))
                except InvariantBroken as broken:
                    self._fail(broken, None)

        return on_write

    def _ender(self, node: SimNode) -> Callable[[], None]:
        def before_end() -> None:
            for replicas in self._replicas.values():
                replica = replicas.get(node.node_id)
                if replica is not None and replica.alive:
                    if replica.partition is None:
                        self._find_role(replica, node.node)
                    if replica.last_leader is not None or isinstance(replica.role, Leader):
                        self._note_exposure(replica)
                    replica.alive = False
            disk, config = node.machine.disk, node.config
            marked = all(disk.peek(f"{directory}/{CLEAN_SHUTDOWN}", 0, 1) for directory in config.log_dirs)
            if marked:
                self._ended_unclean.pop(node.node_id, None)
            else:
                self._ended_unclean[node.node_id] = None

        return before_end

    def on_metadata(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        """`SimCluster.on_metadata`: before the node itself acts on it."""
        if self.failure.done():
            return
        for changed_topic in delta.topics.values():
            for index in changed_topic.partitions:
                replica = self._replicas.get(TopicPartition(changed_topic.after.name, index), {}).get(node_id)
                if replica is not None and replica.alive:
                    self._note_exposure(replica)
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
        self._stale[node_id] = None
        for changed_topic in delta.topics.values():
            for index in changed_topic.partitions:
                self._mark(TopicPartition(changed_topic.after.name, index))
        if delta.brokers:
            self._stale.update(dict.fromkeys(self._cluster.nodes))
            for partition in self._replicas:
                self._mark(partition)

    def on_snapshot(self, node_id: int, image: ClusterImage) -> None:
        """The node has written a snapshot, or fetched one: this is what it says."""
        try:
            self._quorum.on_image(node_id, image)
        except InvariantBroken as broken:
            self._fail(broken, None)

    def on_event(self, event: str, fields: dict[str, object]) -> None:
        """What the trace tells: an ISR that is to grow, damage that was done on purpose."""
        if event == IsrChangeProposed.kind:
            self._mark(TopicPartition(str(fields["topic"]), int(str(fields["partition"]))))
            return
        if UNCLEAN_ELECTION in (event, fields.get("fault")):
            self._unclean_asked_s = self._cluster.loop.time()
        path, node_id = fields.get("path"), fields.get("node")
        if event in UNMARKED and isinstance(node_id, int):
            self._ended_unclean[node_id] = None
        if isinstance(path, str) and isinstance(node_id, int) and path.endswith(LEADER_EPOCH_CHECKPOINT):
            partition = partition_of(path.split("/")[-2])
            if partition is not None:
                self._lost_epochs[node_id, partition] = None

    def on_acknowledged(self, partition: TopicPartition, offset: int, value: bytes, era: int) -> None:
        """A client was told, acks=all: it has to be committed by now. `era` is that in which it was sent."""
        history = self._history(partition)
        if history.era != era or offset < 0 or self._may_be_past(partition, history, offset):
            return
        self._look(partition)
        if offset >= history.true_hw:
            broken = LeaderCompleteness().broken(
                f"{partition}: {offset} was acknowledged, and no leader had a high watermark beyond {history.true_hw}"
            )
            self._fail(broken, self._look_of(partition))
        history.acknowledged_end = max(history.acknowledged_end, offset + 1)
        self._same_value(partition, offset, value)

    def on_read(self, partition: TopicPartition, position: int, offset: int, value: bytes, era: int) -> None:
        """A consumer at `position` was given the record at `offset`; `era` is that in which it began to read."""
        history = self._history(partition)
        if history.era != era or self._may_be_past(partition, history, offset):
            return
        if offset >= history.true_hw:
            self._look(partition)
        what = None
        if offset >= history.true_hw:
            what = f"{offset} was read, and no leader had a high watermark beyond {history.true_hw}"
        elif offset != position:
            what = f"{position} was to be read, and {offset} was"
        if what is not None:
            self._fail(ConsistentRead().broken(f"{partition}: {what}"), self._look_of(partition))
        self._same_value(partition, offset, value)

    def _may_be_past(self, partition: TopicPartition, history: PartitionHistory, offset: int) -> bool:
        """Whether it may have been said by a leader from before an unclean election that it has not heard of yet."""
        return history.era > 0 and any(
            replica.alive
            and isinstance(replica.role, Leader)
            and replica.role.epoch < history.first_epoch
            and replica.log.high_watermark > offset
            for replica in self._replicas.get(partition, {}).values()
        )

    def _same_value(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        known = self._history(partition).values.setdefault(offset, value)
        if known != value:
            what = f"{partition}: {offset} was {known!r} before and is {value!r} now"
            self._fail(ConsistentRead().broken(what), self._look_of(partition))

    def latest_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Leader epoch and offset of the last answer of ListOffsets(latest) so far."""
        return self._history(partition).latest

    def on_latest(
        self, partition: TopicPartition, leader_epoch: int, offset: int, before: tuple[int, int], era: int
    ) -> None:
        """ListOffsets(latest) was answered; `before` is the answer that was known when it was asked."""
        history = self._history(partition)
        if history.era != era or leader_epoch < history.first_epoch:
            return
        if leader_epoch >= before[0] and offset < before[1]:
            what = f"{partition}: ListOffsets said {before[1]} in epoch {before[0]}, then {offset} in {leader_epoch}"
            self._fail(HighWatermark().broken(what), self._look_of(partition))
        history.latest = max(history.latest, (leader_epoch, offset))

    def on_commit_lost(self, stored: TopicPartition, partition: TopicPartition, committed: int, found: int) -> None:
        """`stored` is where the group's commits stand."""
        what = f"the group had committed {committed} of {partition}, and has {found} now: see {stored}"
        self._fail(GroupCommits().broken(what, stored), None)

    def era_of(self, partition: TopicPartition) -> int:
        return self._history(partition).era

    def looks(self) -> list[PartitionLook]:
        """Every partition as it is now."""
        found = [self._look_of(partition) for partition in list(self._replicas)]
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
        for node_id, node in self._cluster.nodes.items():
            running = node.node
            found = (running, None, None) if running is None else (running, running._logs, running.broker)
            if node_id in self._stale or found != self._found.get(node_id):
                self._find_logs(node_id)
        for partition, replicas in self._replicas.items():
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
            for replica in self._replicas.get(partition, {}).values():
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
                self._note_exposure(replica)
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
        if self._stale:
            for node_id in list(self._stale):
                self._find_logs(node_id)
        replicas: list[ReplicaLook] = []
        for replica in self._replicas.get(partition, {}).values():
            if replica.partition is None and replica.alive:
                # A slow node takes its roles one by one, some time after it has told of the metadata that gave them.
                self._find_role(replica, self._cluster.nodes[replica.node_id].node)
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

    def _find_logs(self, node_id: int) -> None:
        """Which logs the node has now, and in which process."""
        self._stale.pop(node_id, None)
        node = self._cluster.nodes[node_id]
        running = node.node
        logs = None if running is None or node.machine.state is State.OFF else running._logs
        broker = None if running is None else running.broker
        self._found[node_id] = (running, logs, broker)
        registered = running is not None and self._is_registered(running, node_id)
        there: dict[TopicPartition, None] = {}
        for log in logs or ():
            partition = log.topic_partition
            there[partition] = None
            replicas = self._replicas.setdefault(partition, {})
            known = replicas.get(node_id)
            if known is None or known.log is not log:
                known = replicas[node_id] = ReplicaLook(
                    node_id=node_id,
                    process=node.machine.starts,
                    topic_partition=partition,
                    log=log,
                    mirror=LogMirror(log, self._disks[node_id]),
                    epochs_from=self._whole_epochs(node_id, log),
                )
            self._find_role(known, running)
            known.registered = registered
        for partition, replicas in self._replicas.items():
            known = replicas.get(node_id)
            if known is not None and known.alive and partition not in there and known.log.directory.online:
                known.alive = False

    def _whole_epochs(self, node_id: int, log: Log) -> int:
        """From which offset on its epochs have to be right: those of before may have been lost with their file."""
        key = (node_id, log.topic_partition)
        if key not in self._lost_epochs:
            return 0
        known = self._lost_epochs[key]
        if known is None:
            known = self._lost_epochs[key] = log.log_end_offset
        return known

    def _find_role(self, replica: ReplicaLook, node: Node | None) -> None:
        partition = replica.topic_partition
        held = None if node is None or node.broker is None else node.broker.replicas.get(partition)
        if held is not replica.partition:
            replica.partition = held
            replica.history = None if held is None else self._history_of(held.topic_id, partition.partition)

    def _is_registered(self, node: Node, node_id: int) -> bool:
        role = node._role
        registered = self.image.broker(node_id)
        return role is not None and registered is not None and registered.incarnation_id == role._incarnation_id

    def _note_exposure(self, replica: ReplicaLook) -> None:
        """What it has shown as a leader so far is promised."""
        partition, mirror = replica.partition, replica.mirror
        role = None if partition is None else partition.role
        leader = role if isinstance(role, Leader) else None
        replica.leader = leader
        if leader is None and isinstance(role, Offline):
            # It led until its directory failed; its high watermark stayed what it was.
            leader = replica.last_leader
        before = mirror.rebuilt
        if mirror.refresh():
            self.truncations += mirror.rebuilt - before
        # It may have shown more between the last look at it and its stepping down.
        deposed, replica.last_leader = replica.last_leader, leader
        leader = leader or deposed
        history = replica.history
        if leader is not None and history is not None:
            high_watermark = replica.log.high_watermark
            if high_watermark > history.true_hw and leader.epoch >= history.first_epoch:
                history.expose(mirror, high_watermark, f"shown by {replica.name} in epoch {leader.epoch}")

    def _history(self, partition: TopicPartition) -> PartitionHistory:
        """Of the topic that has this name now."""
        topic = self.image.topic(partition.topic)
        return self._history_of(ZERO_UUID if topic is None else topic.topic_id, partition.partition)

    def _history_of(self, topic_id: UUID, index: int) -> PartitionHistory:
        key = TopicIdPartition(topic_id, index)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = PartitionHistory()
        return history

    def _begin_eras(self, before: ClusterImage, after: ClusterImage) -> None:
        for change in changed(before, after):
            if is_unclean(change.before, change.after):
                history = self._history_of(change.topic.topic_id, change.index)
                history.begin_era(change.after.leader_epoch, change.after.leader)
                self.on_unclean(TopicPartition(change.topic.name, change.index))

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
                known = self._members[node_id] = Member(node_id, node.machine.starts, raft, self._disks[node_id])
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


def _disk_of(node: SimNode) -> Callable[[], SimDisk]:
    machine = node.machine
    return lambda: machine.disk

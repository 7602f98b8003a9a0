"""One look at a partition: what is committed of it in the metadata, and every replica as it is at this moment."""

from dataclasses import dataclass, field
from uuid import UUID

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage, PartitionRegistration
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader, Offline, Role
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.mirror import Batch, LogMirror
from tidelog.storage.log import Log


@dataclass(slots=True, eq=False)
class ReplicaLook:
    """One replica in one process. Kept from look to look, so that only what is new is read."""

    node_id: int
    process: int
    """Which start of the machine it is."""
    topic_partition: TopicPartition
    log: Log
    mirror: LogMirror
    partition: Partition | None = None
    alive: bool = True
    registered: bool = False
    """Under the current incarnation."""
    leader: Leader | None = None
    """Its role as of this look, if it leads."""
    running: bool = False
    """`is_running` as of this look."""
    history: PartitionHistory | None = None
    """Of the topic that `partition` is of."""
    epochs_from: int = 0
    """Up to there it may lack epochs: their file was damaged."""
    # What was seen last: to find out cheaply whether anything is new.
    seen: tuple[object, ...] = ()
    told: tuple[str, int, int, int, int] | None = None
    """What a trace last said of it."""
    last_leader: Leader | None = None
    _era: int = -1
    _version: int = -1
    _checked: int = 0

    @property
    def role(self) -> Role | None:
        return None if self.partition is None else self.partition.role

    @property
    def is_running(self) -> bool:
        """Registered under the current incarnation, log directory online."""
        return self.registered and self.alive and self.log.directory.failure is None

    @property
    def name(self) -> str:
        return f"broker {self.node_id} (start {self.process})"

    def has_moved(self) -> bool:
        """Whether `state` is another than was seen."""
        log, partition, seen = self.log, self.partition, self.seen
        if not seen or log.log_end_offset != seen[0] or log.high_watermark != seen[1]:
            return True
        role = None if partition is None else partition.role
        if role is not seen[3]:
            return True
        isr_state = role.isr_state if isinstance(role, Leader) else None
        return isr_state is not seen[4] or log.truncations != seen[2] or log.directory.failure is not seen[5]

    def state(self) -> tuple[object, ...]:
        log, partition = self.log, self.partition
        role = None if partition is None else partition.role
        isr_state = role.isr_state if isinstance(role, Leader) else None
        return (log.log_end_offset, log.high_watermark, log.truncations, role, isr_state, log.directory.failure)

    def told_of(self) -> tuple[str, int, int, int, int]:
        """Role, leader epoch, log start, log end, high watermark; the role is "none" before the metadata gave one."""
        log, partition = self.log, self.partition
        role = "none" if partition is None else type(partition.role).__name__.lower()
        epoch = -1 if partition is None else partition.leader_epoch
        return (role, epoch, log.log_start_offset, log.log_end_offset, log.high_watermark)

    def lacks(self, history: PartitionHistory, limit: int) -> str | None:
        """What is wrong with it below `limit`, if anything: all that is committed there it has to have, and the same.

        Nothing is deleted in a simulation, neither by retention nor on request: every log begins at 0.
        """
        log, mirror = self.log, self.mirror
        if log.log_end_offset < limit:
            return f"{self.name} ends at {log.log_end_offset}, below {limit} ({history.exposed_by})"
        found = self.first_difference(history, limit)
        if found is not None:
            batch, expected = found
            return f"{self.name} has {batch}, but the committed log has {expected or 'no batch at that offset'}"
        start = mirror.batches[0].base_offset if mirror.batches else mirror.end
        if limit > 0 and max(start, log.log_start_offset) > 0:
            return (
                f"{self.name} begins at {max(start, log.log_start_offset)}, but every offset up to {limit} is committed"
            )
        return None

    def first_difference(self, history: PartitionHistory, limit: int) -> tuple[Batch, Batch | None] | None:
        """The first batch below `limit` that is not the committed one, and that one. Looks at nothing twice."""
        mirror = self.mirror
        if self._era != history.era or self._version != mirror.version:
            self._era, self._version, self._checked = history.era, mirror.version, 0
        batches, committed = mirror.batches, history.committed
        checked, count = self._checked, len(batches)
        while checked < count:
            batch = batches[checked]
            if batch.next_offset > limit:
                break
            expected = committed.get(batch.base_offset)
            if expected is None or not batch.same(expected):
                return batch, expected
            self._checked = checked = checked + 1
        return None

    def describe(self) -> str:
        log, role = self.log, self.role
        if isinstance(role, Leader):
            isr = role.isr_state
            told = f"leader in epoch {role.epoch} from {role.epoch_start_offset}, {type(isr).__name__} ISR "
            told += f"{sorted(isr.isr)} maximal {sorted(isr.maximal_isr)}, partition epoch {role.partition_epoch}"
            ends = {replica: state.log_end_offset for replica, state in role.followers.items()}
            told += f", followers at {ends}"
        elif isinstance(role, Offline):
            told = f"offline: {role.reason}"
        elif role is None:
            told = "without a role"
        else:
            told = f"follower of {role.leader} in epoch {role.epoch}, partition epoch {role.partition_epoch}"
        alive = "running" if self.is_running else "not registered" if self.alive else "gone"
        epochs = [(entry.epoch, entry.start_offset) for entry in log.epochs.entries[-6:]]
        return (
            f"{self.name}, {alive}: LEO {log.log_end_offset} HW {log.high_watermark} "
            f"min.insync {log.config.min_insync_replicas} epochs {epochs}; {told}"
        )


@dataclass(slots=True, eq=False)
class PartitionLook:
    """See the module."""

    topic_partition: TopicPartition
    topic_id: UUID
    history: PartitionHistory
    image: ClusterImage
    registration: PartitionRegistration
    effective_min_isr: int
    replicas: list[ReplicaLook] = field(default_factory=list)

    @property
    def elected(self) -> ReplicaLook | None:
        """Who leads in the epoch that the committed metadata has, also if its directory has failed: it may not have
        heard of that yet.
        """
        for replica in self.replicas:
            leader = replica.leader
            if (
                leader is not None
                and replica.alive
                and leader.epoch == self.registration.leader_epoch
                and replica.node_id == self.registration.leader
            ):
                return replica
        return None

    @property
    def leader(self) -> ReplicaLook | None:
        """The same, if it runs."""
        elected = self.elected
        return elected if elected is not None and elected.running else None

    def of(self, node_id: int) -> ReplicaLook | None:
        return next((replica for replica in self.replicas if replica.node_id == node_id and replica.alive), None)

    def describe(self) -> list[str]:
        r = self.registration
        brokers = {b.broker_id: f"epoch {b.epoch}{' fenced' if b.fenced else ''}" for b in self.image.brokers.values()}
        history = self.history
        return [
            f"{self.topic_partition} committed at metadata offset {self.image.provenance.offset}: leader {r.leader} "
            f"epoch {r.leader_epoch} partition epoch {r.partition_epoch} replicas {list(r.replicas)} "
            f"ISR {list(r.isr)} ELR {list(r.elr)} last known {list(r.last_known_elr)} min ISR {self.effective_min_isr}",
            f"  brokers {brokers}",
            f"  true HW {history.true_hw} ({history.exposed_by}), acknowledged up to {history.acknowledged_end}, "
            f"era {history.era} since epoch {history.first_epoch}",
            *(f"  {replica.describe()}" for replica in self.replicas),
        ]

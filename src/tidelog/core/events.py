"""What happens in a node, in one vocabulary: log lines, metrics, traces and the live page all speak it.

An event says what, where and why; when and on which node is added by whoever takes it.
"""

from uuid import UUID

from tidelog.core.event import Event as Event
from tidelog.core.event import EventSink as EventSink
from tidelog.core.event import Severity as Severity
from tidelog.core.event import event, shown


@event
class PartitionEvent(Event):
    """Something about one partition; its text begins with `topic-partition:`."""

    topic: str
    partition: int

    def text(self) -> str:
        return f"{shown(self.topic)}-{self.partition}: {Event.text(self)}"


@event
class NodeStarted(Event):
    template = "node {node_id} of cluster {cluster_id} serves as {roles} on {listeners}"
    node_id: int
    cluster_id: str
    roles: tuple[str, ...]
    listeners: tuple[str, ...]


@event
class NodeStopping(Event):
    template = "node {node_id} is stopping: {reason}"
    node_id: int
    reason: str


@event
class NodeStopped(Event):
    template = "node {node_id} has stopped"
    node_id: int


@event
class QuorumLeaderChanged(Event):
    """As this node knows it (Q3). Leader -1: none, or not known yet."""

    template = "metadata quorum: leader {leader} in epoch {epoch}"
    leader: int
    epoch: int


@event
class ControllerActivated(Event):
    template = "this node is the active controller of epoch {epoch}"
    epoch: int


@event
class ControllerResigned(Event):
    template = "this node is no longer the active controller (epoch {epoch})"
    epoch: int


@event
class BrokerRegistered(Event):
    template = "broker {broker_id} registered with epoch {broker_epoch}"
    broker_id: int
    broker_epoch: int


@event
class BrokerFenced(Event):
    severity = Severity.WARNING
    template = "broker {broker_id} with epoch {broker_epoch} fenced: {reason}"
    broker_id: int
    broker_epoch: int
    reason: str


@event
class BrokerUnfenced(Event):
    template = "broker {broker_id} with epoch {broker_epoch} unfenced: {reason}"
    broker_id: int
    broker_epoch: int
    reason: str


@event
class BrokerShuttingDown(Event):
    template = (
        "broker {broker_id} with epoch {broker_epoch} is shutting down: new leader or ISR in {moved} of its partitions"
    )
    broker_id: int
    broker_epoch: int
    moved: int


@event
class TopicCreated(Event):
    template = "topic {topic} ({topic_id}) created, partitions {partitions}, replication factor {replication_factor}"
    topic: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@event
class TopicDeleted(Event):
    template = "topic {topic} ({topic_id}) deleted"
    topic: str
    topic_id: UUID


@event
class LeaderElected(PartitionEvent):
    """From the controller, which knows no offsets; the leader reports them (`LeadershipTaken`). Leader -1: none."""

    template = "leader {old_leader} to {leader} in epoch {leader_epoch}, ISR {old_isr} to {isr}, ELR {elr}: {reason}"
    old_leader: int
    leader: int
    leader_epoch: int
    old_isr: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    unclean: bool
    reason: str


@event
class UncleanLeaderElected(LeaderElected):
    """C6: it may lack records that were acknowledged. Which, only who had them can tell: `CommittedRecordsLost`."""

    severity = Severity.WARNING


@event
class LeadershipTaken(PartitionEvent):
    """From the new leader: its epoch begins at the end of its log (E4)."""

    template = (
        "leads in epoch {leader_epoch} from offset {epoch_start_offset}, log start {log_start_offset}, "
        "HW {high_watermark}, ISR {isr}"
    )
    leader_epoch: int
    epoch_start_offset: int
    log_start_offset: int
    high_watermark: int
    isr: tuple[int, ...]


@event
class FollowingStarted(PartitionEvent):
    """From a follower, before it has compared its log with the leader's. Leader -1: none."""

    template = "follower in epoch {leader_epoch}, leader {leader}, LEO {log_end_offset}, HW {high_watermark}"
    leader: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int


@event
class UncleanLeaderStarted(PartitionEvent):
    """C6, from the new leader: offsets from here on are given anew."""

    severity = Severity.WARNING
    template = (
        "leads uncleanly in epoch {leader_epoch} from offset {epoch_start_offset} on, local HW {high_watermark}: "
        "other replicas' acknowledged records from that offset on are lost"
    )
    leader_epoch: int
    epoch_start_offset: int
    high_watermark: int


@event
class IsrChangeProposed(PartitionEvent):
    """Asked of the controller (I5); until it has decided, the maximal ISR counts."""

    template = (
        "proposes ISR {proposed_isr} instead of {isr} in epoch {leader_epoch}, LEO {log_end_offset}, "
        "HW {high_watermark}: {reason}"
    )
    leader_epoch: int
    isr: tuple[int, ...]
    proposed_isr: tuple[int, ...]
    log_end_offset: int
    high_watermark: int
    reason: str


@event
class IsrChangeRefused(PartitionEvent):
    severity = Severity.WARNING
    template = "ISR {proposed_isr} instead of {isr} in epoch {leader_epoch} refused with {error}: {consequence}"
    leader_epoch: int
    isr: tuple[int, ...]
    proposed_isr: tuple[int, ...]
    error: str
    consequence: str


@event
class IsrChanged(PartitionEvent):
    template = "ISR {old_isr} to {new_isr} in epoch {leader_epoch}, LEO {log_end_offset}, HW {high_watermark}: {reason}"
    leader_epoch: int
    old_isr: tuple[int, ...]
    new_isr: tuple[int, ...]
    log_end_offset: int
    high_watermark: int
    reason: str


@event
class ReplicationSampled(Event):
    """How the partitions stand that a broker leads: those under-replicated as (topic, partition, in sync, replicas),
    the lag of followers as (topic, partition, follower, records), and those whose high watermark has stood still below
    the end of the log since the last sample, as (topic, partition, HW, LEO). Lists are cut at a bound.
    """

    template = "{leaders} partitions led: {under_replicated} under-replicated, {stalled} stalled"
    interval_ms: int
    leaders: int
    under_replicated: tuple[tuple[str, int, int, int], ...]
    lags: tuple[tuple[str, int, int, int], ...]
    stalled: tuple[tuple[str, int, int, int], ...]
    # Events that could not be published, since the node started.
    dropped: int


@event
class LogsLoading(Event):
    template = "loaded {loaded} of {total} logs in {directory}"
    directory: str
    loaded: int
    total: int


@event
class LogRecovered(PartitionEvent):
    template = "recovered from {log_start_offset} to {log_end_offset}, {bytes_cut} bytes cut: {reason}"
    log_start_offset: int
    log_end_offset: int
    bytes_cut: int
    reason: str


@event
class LogTruncated(PartitionEvent):
    severity = Severity.WARNING
    template = "log end moved from {old_end_offset} to {new_end_offset}: {reason}"
    old_end_offset: int
    new_end_offset: int
    reason: str


@event
class CommittedRecordsLost(LogTruncated):
    """C6: this replica gave up offsets that it knew to be committed, at least these."""

    template = (
        "this replica loses committed offsets {first_lost_offset} to {last_lost_offset} "
        "(leader epochs {leader_epochs}), log end moved from {old_end_offset} to {new_end_offset}: {reason}"
    )
    first_lost_offset: int
    last_lost_offset: int
    leader_epochs: tuple[int, ...]


@event
class LogDirectoryOffline(Event):
    severity = Severity.ERROR
    template = "log directory {directory} offline: {reason}"
    directory: str
    reason: str


@event
class GroupRebalanced(Event):
    template = "group {group_id} in generation {generation} with {members} members: {reason}"
    group_id: str
    generation: int
    members: int
    reason: str


@event
class GroupMemberRemoved(Event):
    template = "group {group_id} lost member {member_id}: {reason}"
    group_id: str
    member_id: str
    reason: str

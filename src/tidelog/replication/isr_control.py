"""How the in-sync set of one led partition changes: proposed, answered, committed, told (I4, I5, O2)."""

from tidelog.core.events import IsrChanged, IsrChangeProposed, IsrChangeRefused
from tidelog.core.ids import BrokerId, PartitionEpoch, TopicIdPartition, TopicPartition
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.replication import leading
from tidelog.replication.context import ReplicationContext
from tidelog.replication.isr import Committed, Isr, Pending, PendingExpand, Verdict, verdict
from tidelog.replication.isr_changes import IsrProposal, Outcome, Proposer
from tidelog.replication.roles import Leader
from tidelog.storage.log import Log
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import ResponsePartitionData

CONTROLLERS_DECISION = "the controller's decision"


class IsrControl:
    """Every change of a leader's `isr_state` within its epoch is made here."""

    __slots__ = ("_context", "_key", "_log", "_partition", "_topic_partition")

    def __init__(
        self,
        partition: Proposer,
        key: TopicIdPartition,
        topic_partition: TopicPartition,
        log: Log,
        context: ReplicationContext,
    ) -> None:
        self._partition = partition
        self._key = key
        self._topic_partition = topic_partition
        self._log = log
        self._context = context

    def propose(self, leader: Leader, pending: Pending | None) -> None:
        """Offers a change, if there is one to offer. `leading` makes none while another one is pending (I4)."""
        if pending is None:
            return
        assert isinstance(leader.isr_state, Committed), leader.isr_state
        leader.isr_state = pending
        self._tell_proposed(leader, pending)
        self._context.changes.offer(
            IsrProposal(
                partition=self._partition,
                key=self._key,
                pending=pending,
                leader_epoch=leader.epoch,
                partition_epoch=leader.partition_epoch,
                isr=leading.members_with_epochs(leader, pending, self._context),
            )
        )

    def propose_newcomer(self, leader: Leader, pending: PendingExpand | None, now_s: float) -> None:
        """Offers to let a follower join, unless the controller has just refused it."""
        context = self._context
        if pending is None or context.refusals.hold_back(pending.newcomer, context.newest_brokers, now_s):
            return
        self.propose(leader, pending)

    def on_answer(self, leader: Leader, pending: Pending, answer: ResponsePartitionData, now_s: float) -> Outcome:
        """The controller's word on a proposal; a stale one, overtaken by newer metadata, changes nothing."""
        if leader.isr_state is not pending:
            return Outcome()
        match verdict(answer.error_code):
            case Verdict.ACCEPT:
                if answer.leader_epoch != leader.epoch or answer.partition_epoch < leader.partition_epoch:
                    # About a state that this leader is not in: the metadata will tell.
                    return Outcome()
                recovering = answer.leader_recovery_state == LeaderRecoveryState.RECOVERING
                isr = frozenset(BrokerId(member) for member in answer.isr)
                if pending.isr - isr:
                    # Whoever leaves may stay eligible by a minimum that was raised before, and that this broker has not
                    # replayed yet: it is counted until the metadata itself says that it left.
                    return Outcome()
                if isinstance(pending, PendingExpand):
                    self._context.refusals.forget(pending.newcomer)
                self.commit(leader, Committed(isr=isr, recovering=recovering), answer.partition_epoch)
            case Verdict.TAKE_BACK:
                self._refused(leader, pending, answer.error_code, "the committed ISR stays")
                leader.isr_state = pending.committed
                if isinstance(pending, PendingExpand) and answer.error_code == ErrorCode.INELIGIBLE_REPLICA:
                    self._context.refusals.note(pending.newcomer, self._context.newest_brokers, now_s)
            case Verdict.LEAVE_PENDING:
                self._refused(
                    leader,
                    pending,
                    answer.error_code,
                    "an earlier attempt may have been committed; waiting for newer metadata",
                )
                return Outcome()
            case Verdict.RETRY:
                return Outcome(retry=True)
        leading.advance_high_watermark(leader, self._log, self._context, now_s)
        return Outcome(is_over=True)

    def commit(self, leader: Leader, committed: Committed, partition_epoch: int) -> None:
        """What the controller has: from its answer or from newer metadata, and either may come first."""
        before = leader.isr_state
        leader.isr_state = committed
        leader.partition_epoch = PartitionEpoch(partition_epoch)
        if committed.isr == before.isr:
            return
        counters = self._context.counters
        counters.isr_expands += bool(committed.isr - before.isr)
        counters.isr_shrinks += bool(before.isr - committed.isr)
        reason = self._decided(before.isr - committed.isr)
        if not isinstance(before, Committed) and before.proposed == committed.isr:
            reason = before.reason
        self._context.on_event(
            IsrChanged(
                topic=self._topic_partition.topic,
                partition=self._topic_partition.partition,
                leader_epoch=leader.epoch,
                old_isr=tuple(sorted(before.isr)),
                new_isr=tuple(sorted(committed.isr)),
                log_end_offset=self._log.log_end_offset,
                high_watermark=self._log.high_watermark,
                reason=reason,
            )
        )

    # --- what is told (O2)

    def _decided(self, leavers: Isr) -> str:
        """Why the controller took them out by itself, as far as the metadata shows it."""
        stories = []
        for replica in sorted(leavers):
            broker = self._context.brokers.get(replica)
            if broker is None:
                stories.append(f"broker {replica} is no longer registered")
            elif broker.in_controlled_shutdown:
                stories.append(f"broker {replica} is shutting down")
            elif broker.fenced:
                stories.append(f"broker {replica} is fenced")
        return "; ".join([CONTROLLERS_DECISION, *stories])

    def _tell_proposed(self, leader: Leader, pending: Pending) -> None:
        self._context.on_event(
            IsrChangeProposed(
                topic=self._topic_partition.topic,
                partition=self._topic_partition.partition,
                leader_epoch=leader.epoch,
                isr=tuple(sorted(pending.isr)),
                proposed_isr=tuple(sorted(pending.proposed)),
                log_end_offset=self._log.log_end_offset,
                high_watermark=self._log.high_watermark,
                reason=pending.reason,
            )
        )

    def _refused(self, leader: Leader, pending: Pending, error_code: int, consequence: str) -> None:
        self._context.counters.failed_isr_updates += 1
        self._context.on_event(
            IsrChangeRefused(
                topic=self._topic_partition.topic,
                partition=self._topic_partition.partition,
                leader_epoch=leader.epoch,
                isr=tuple(sorted(pending.isr)),
                proposed_isr=tuple(sorted(pending.proposed)),
                error=ErrorCode(error_code).name,
                consequence=consequence,
            )
        )

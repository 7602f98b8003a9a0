"""Invariants of replicas: what was promised is where it must be (1, 2, 3, 5, 7)."""

from tidelog.core.ids import TopicPartition
from tidelog.replication.isr import PendingExpand
from tidelog.replication.roles import Leader
from tidelog.sim.checks.invariant import Invariant
from tidelog.sim.checks.look import PartitionLook, ReplicaLook


class LeaderCompleteness(Invariant):
    """A running leader of the current epoch has LEO >= trueHW and every value acknowledged with acks=all."""

    number = 1

    def on_partition(self, look: PartitionLook) -> None:
        leader = look.leader
        if leader is not None and (lacks := leader.lacks(look.history, look.history.true_hw)) is not None:
            raise self.broken(f"{look.topic_partition}: the leader {lacks}")


class CandidateCompleteness(Invariant):
    """Every running member of ISR and ELR has LEO >= trueHW, and so has whom the leader wants to take in."""

    number = 2

    def __init__(self) -> None:
        # The newest proposal of each partition, and the broker epoch it was made with.
        self._proposals: dict[TopicPartition, tuple[PendingExpand, int]] = {}

    def proposed_epoch(self, partition: TopicPartition, newcomer: int) -> int | None:
        """The broker epoch under which its leader, when it last wanted somebody in the ISR, had seen this one."""
        known = self._proposals.get(partition)
        return None if known is None or known[0].newcomer != newcomer else known[1]

    def on_partition(self, look: PartitionLook) -> None:
        self._check_members(look)
        elected = look.elected
        leader = None if elected is None else elected.leader
        if elected is not None and leader is not None and isinstance(leader.isr_state, PendingExpand):
            self._check_newcomer(look, elected, leader, leader.isr_state)

    def _check_newcomer(self, look: PartitionLook, replica: ReplicaLook, leader: Leader, state: PendingExpand) -> None:
        """Seen at the proposal: by the time it is committed the newcomer may have what it lacked."""
        known = self._proposals.get(look.topic_partition)
        if known is None or known[0] is not state:
            known = self._proposals[look.topic_partition] = state, leader.followers[state.newcomer].broker_epoch
        newcomer, registered = look.of(state.newcomer), look.image.broker(state.newcomer)
        if newcomer is None or registered is None or not newcomer.is_running:
            return
        if known[1] != registered.epoch:
            # It was caught up in an earlier process, and may fetch in the next one by now: the controller will refuse.
            return
        if newcomer.log.log_end_offset < look.history.true_hw:
            raise self.broken(
                f"{look.topic_partition}: {replica.name} proposes {newcomer.name} for the ISR, but its log ends at "
                f"{newcomer.log.log_end_offset}, below {look.history.true_hw} ({look.history.exposed_by})"
            )

    def _check_members(self, look: PartitionLook) -> None:
        registration, true_hw = look.registration, look.history.true_hw
        for replica in look.replicas:
            if (
                replica.running
                and replica.log.log_end_offset < true_hw
                and (replica.node_id in registration.isr or replica.node_id in registration.elr)
            ):
                where = "ISR" if replica.node_id in registration.isr else "ELR"
                raise self.broken(
                    f"{look.topic_partition}: {replica.name} is in the {where} and ends at "
                    f"{replica.log.log_end_offset}, below {true_hw} ({look.history.exposed_by})"
                )


class StrongIsr(Invariant):
    """Below any presumed leader's HW all logs of the controller's ISR are identical."""

    number = 3

    def on_partition(self, look: PartitionLook) -> None:
        for replica in look.replicas:
            if replica.running and replica.node_id in look.registration.isr:
                lacks = replica.lacks(look.history, look.history.true_hw)
                if lacks is not None:
                    raise self.broken(f"{look.topic_partition}: in the ISR, {lacks}")


class LogMatching(Invariant):
    """Two replicas agree on (offset, epoch, bytes) below the smaller of their HWs."""

    number = 5

    def on_partition(self, look: PartitionLook) -> None:
        # Every high watermark is at most the true one, so agreeing with what is committed is agreeing pairwise.
        history = look.history
        for replica in look.replicas:
            if replica.alive and (history.era == 0 or replica.node_id in history.trusted):
                lacks = replica.lacks(history, min(replica.log.high_watermark, history.true_hw))
                if lacks is not None:
                    raise self.broken(f"{look.topic_partition}: {lacks}")


class GloballyDurable(Invariant):
    """Every value acknowledged with acks=all is on at least one replica."""

    number = 7

    def on_partition(self, look: PartitionLook) -> None:
        end = look.history.acknowledged_end
        if end == 0:
            return
        lacking = []
        for replica in look.replicas:
            lacks = replica.lacks(look.history, end)
            if lacks is None:
                return
            lacking.append(lacks)
        there = {replica.node_id for replica in look.replicas}
        if there >= set(look.registration.replicas):
            raise self.broken(f"{look.topic_partition}: acknowledged up to {end}, and " + "; ".join(lacking))

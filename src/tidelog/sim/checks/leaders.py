"""Invariants of leaders: what they count, what they show, in which epoch (4, 8, 10)."""

from tidelog.replication.isr import IsrState
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.invariant import Invariant
from tidelog.sim.checks.look import PartitionLook, ReplicaLook


class QuorumSuperset(Invariant):
    """A leader whose epoch is the controller's and that sees |ISR| >= min ISR counts a maximal ISR that has all of the
    controller's ISR and ELR.
    """

    number = 4

    def on_partition(self, look: PartitionLook) -> None:
        registration = look.registration
        for replica in look.replicas:
            leader = replica.leader
            if leader is None or not replica.running or leader.epoch != registration.leader_epoch:
                continue
            state = leader.isr_state
            if len(state.isr) < min(replica.log.config.min_insync_replicas, len(leader.replicas)):
                continue
            missing = {*registration.isr, *registration.elr} - state.maximal_isr
            if missing:
                raise self.broken(
                    f"{look.topic_partition}: leader {replica.name} counts {sorted(state.maximal_isr)}, the controller "
                    f"has ISR {list(registration.isr)} and ELR {list(registration.elr)}"
                )


class HighWatermark(Invariant):
    """The HW is monotonic per leader epoch, at most LEO, and frozen under min ISR. (ListOffsets(latest) never goes back
    over answers ordered by leader epoch: readers look at that.)
    """

    number = 8

    def __init__(self) -> None:
        self._shown: dict[tuple[PartitionHistory, int], int] = {}
        self._frozen: dict[tuple[PartitionHistory, int, int], tuple[IsrState, int, int]] = {}

    def on_partition(self, look: PartitionLook) -> None:
        for replica in look.replicas:
            log = replica.log
            if not replica.alive:
                continue
            if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
                raise self.broken(
                    f"{look.topic_partition}: offsets outside the log of {replica.name}: {replica.describe()}"
                )
            # After an unclean election a follower goes by what it heard before until its new leader tells it.
            if log.high_watermark > look.history.highest_hw:
                raise self.broken(
                    f"{look.topic_partition}: {replica.name} has {log.high_watermark}, no leader ever had a "
                    "high watermark above "
                    f"{look.history.highest_hw}"
                )
            if replica.leader is not None:
                self._check_leader(look, replica)

    def _check_leader(self, look: PartitionLook, replica: ReplicaLook) -> None:
        leader, log = replica.leader, replica.log
        assert leader is not None
        key = (look.history, int(leader.epoch))
        shown = self._shown.get(key, 0)
        if log.high_watermark < shown:
            raise self.broken(
                f"{look.topic_partition}: went back from {shown} to {log.high_watermark} in epoch {leader.epoch}"
            )
        self._shown[key] = log.high_watermark
        needed = min(log.config.min_insync_replicas, len(leader.replicas))
        if len(leader.isr_state.isr) >= needed:
            self._frozen.pop((*key, replica.node_id), None)
            return
        before = self._frozen.get((*key, replica.node_id))
        if before is not None and before[0] is leader.isr_state and before[1] == needed:
            if log.high_watermark != before[2]:
                raise self.broken(
                    f"{look.topic_partition}: moved from {before[2]} to {log.high_watermark} with an ISR of "
                    f"{sorted(leader.isr_state.isr)}, {needed} are needed"
                )
            return
        self._frozen[(*key, replica.node_id)] = (leader.isr_state, needed, log.high_watermark)


class Epochs(Invariant):
    """Leader and partition epochs are monotonic; at most one leader per epoch; every batch's epoch is the one the epoch
    cache gives for its offset (the cache may end with one empty epoch).
    """

    number = 10

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionHistory, int], tuple[int, int]] = {}
        self._checked: dict[ReplicaLook, tuple[int, int, int]] = {}

    def on_partition(self, look: PartitionLook) -> None:
        for replica in look.replicas:
            if not replica.alive:
                continue
            leader = replica.leader
            if leader is not None:
                me = (replica.node_id, replica.process)
                first = self._leaders.setdefault((look.history, int(leader.epoch)), me)
                if first != me:
                    raise self.broken(
                        f"{look.topic_partition}: broker {first[0]} (start {first[1]}) and {replica.name} both lead in "
                        f"epoch {leader.epoch}"
                    )
            self._check_cache(replica)

    def _check_cache(self, replica: ReplicaLook) -> None:
        log, mirror = replica.log, replica.mirror
        rebuilt, dropped, checked = self._checked.get(replica, (mirror.rebuilt, mirror.dropped, 0))
        if rebuilt != mirror.rebuilt:
            checked = 0
            self._check_cut(replica)
        elif dropped != mirror.dropped:
            checked = 0
        elif checked == len(mirror.batches):
            return
        for batch in mirror.batches[checked:]:
            cached = log.epochs.epoch_for_offset(batch.base_offset)
            if cached != batch.epoch and batch.base_offset >= max(log.log_start_offset, replica.epochs_from):
                raise self.broken(
                    f"{log.topic_partition} on {replica.name}: {batch}, but its epoch cache has epoch {cached}"
                )
        self._checked[replica] = (mirror.rebuilt, mirror.dropped, len(mirror.batches))
        empty = sum(entry.start_offset >= log.log_end_offset for entry in log.epochs.entries)
        if empty > 1:
            raise self.broken(
                f"{log.topic_partition} on {replica.name}: {empty} epochs in its cache begin at the end of the log"
            )

    def _check_cut(self, replica: ReplicaLook) -> None:
        """A log that was just cut knows of no epoch beyond its end, but the one that it leads in."""
        log, leads_in = replica.log, None if replica.leader is None else replica.leader.epoch
        for entry in log.epochs.entries:
            if entry.start_offset >= log.log_end_offset and entry.epoch != leads_in:
                raise self.broken(
                    f"{log.topic_partition} on {replica.name}: cut to {log.log_end_offset}, its cache still has {entry}"
                )

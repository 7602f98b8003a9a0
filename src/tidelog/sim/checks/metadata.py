"""Invariants of committed metadata (9, 10, 11, 15)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from tidelog.controller import invariants
from tidelog.controller.configs import MIN_INSYNC_REPLICAS
from tidelog.controller.elections import PartitionRules
from tidelog.controller.partition_rules import rules_for
from tidelog.controller.partitions import is_online
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import RESERVED_UUIDS, TopicPartition
from tidelog.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from tidelog.sim.checks.invariant import Invariant

# Whether the process before the one that registered ended without order.
EndedUnclean: TypeAlias = Callable[[BrokerRegistration], bool]


@dataclass(frozen=True, slots=True)
class _Changed:
    topic: TopicImage
    index: int
    before: PartitionRegistration
    after: PartitionRegistration

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.index)

    def __str__(self) -> str:
        return f"{self.partition}: {self.before} became {self.after}"


def changed(before: ClusterImage, after: ClusterImage) -> Iterator[_Changed]:
    """Partitions that were there before and are not what they were."""
    for topic_id, topic in after.topics_by_id.items():
        earlier = before.topics_by_id.get(topic_id)
        if earlier is None or earlier is topic:
            continue
        for index, partition in topic.partitions.items():
            was = earlier.partitions.get(index)
            if was is not None and was is not partition and was != partition:
                yield _Changed(topic, index, was, partition)


def is_unclean(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Whether a leader was elected that may lack what was acknowledged. Some batches may not have been seen."""
    if after.leader_epoch == before.leader_epoch or after.leader < 0:
        return False
    if after.leader_recovery_state is LeaderRecoveryState.RECOVERING:
        # One that has not recovered yet is elected again from ISR or ELR as any other: it is who has everything.
        again = before.leader_recovery_state is LeaderRecoveryState.RECOVERING and _is_next(before, after)
        return not (again and after.leader in (*before.isr, *before.elr))
    # Caught up and elected in one: its joining completed a reassignment after which it is the one to lead.
    completed = after.replicas != before.replicas and _is_next(before, after)
    return after.leader not in (*before.isr, *before.elr) and not completed


def _is_next(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    return after.partition_epoch == before.partition_epoch + 1


class Rules:
    """The settings in force for a topic, as the controller sees them. Resolved once for each image."""

    def __init__(self, config: NodeConfig) -> None:
        self._static = config
        self._dynamic: Mapping[str, str] = {}
        self._config = config
        self._image: ClusterImage | None = None
        self._of: Callable[[TopicImage], PartitionRules] | None = None

    def config(self, image: ClusterImage) -> NodeConfig:
        dynamic = image.broker_configs(None)
        if dynamic != self._dynamic:
            self._dynamic = dynamic
            self._config, _ = self._static.with_dynamic(cluster=dynamic, broker={})
        return self._config

    def __call__(self, image: ClusterImage, topic: TopicImage) -> PartitionRules:
        if self._of is None or image is not self._image:
            self._image, self._of = image, rules_for(image, self.config(image))
        return self._of(topic)


class Metadata(Invariant):
    """Leader = -1 or leader in ISR; ISR and ELR within AR and disjoint; nobody fenced in the ISR; |ISR| >= effective
    min ISR means an empty ELR.
    """

    number = 9

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        try:
            invariants.check_invariants(after, self._rules.config(after), judged=before)
        except invariants.InvariantBroken as error:
            raise self.broken(str(error), error.partition) from error


class MetadataEpochs(Invariant):
    """Leader and partition epochs are monotonic: nothing changes within a partition epoch, no leader within its own."""

    number = 10

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        try:
            invariants.check_epochs(before, after)
        except invariants.InvariantBroken as error:
            raise self.broken(str(error), error.partition) from error


class UncleanExclusion(Invariant):
    """From the commit of its new registration a replica restarted uncleanly is in neither ISR nor ELR until it has
    caught up under its new broker epoch; whoever is elected from neither of them is no clean leader.
    """

    number = 11

    def __init__(
        self,
        ended_unclean: EndedUnclean,
        proposed_epoch: Callable[[TopicPartition, int], int | None] = lambda partition, broker_id: None,
    ) -> None:
        self._ended_unclean = ended_unclean
        self._proposed_epoch = proposed_epoch

    def _check_joined(self, after: ClusterImage, change: _Changed) -> None:
        """Whoever its leader lets in had caught up in the process that is let in."""
        if change.after.leader_epoch != change.before.leader_epoch:
            return
        for broker_id in change.after.isr:
            broker, seen = after.brokers.get(broker_id), self._proposed_epoch(change.partition, broker_id)
            if broker_id not in change.before.isr and broker is not None and seen not in (None, broker.epoch):
                what = (
                    f"broker {broker_id} joined the ISR with broker epoch {broker.epoch}, but caught up with "
                    f"broker epoch {seen}: {change}"
                )
                raise self.broken(what, change.partition)

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        anew = [
            broker_id
            for broker_id, broker in after.brokers.items()
            if broker_id in before.brokers
            and before.brokers[broker_id].incarnation_id != broker.incarnation_id
            and self._ended_unclean(broker)
        ]
        for change in changed(before, after):
            if change.after.partition_epoch > change.before.partition_epoch + 1:
                # Not every batch was seen: it may have caught up in between.
                continue
            self._check_joined(after, change)
            for broker_id in set(change.after.elr) - {*change.before.isr, *change.before.elr}:
                raise self.broken(
                    f"broker {broker_id} joined the ELR, but was in neither ISR nor ELR: {change}", change.partition
                )
            now = change.after
            if is_unclean(change.before, now) and now.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
                what = f"broker {now.leader} leads without recovery, but was in neither ISR nor ELR: {change}"
                raise self.broken(what, change.partition)
        if anew:
            for topic in after.topics_by_id.values():
                for index, partition in topic.partitions.items():
                    was = before.topics_by_id.get(topic.topic_id)
                    old = None if was is None else was.partitions.get(index)
                    if old is not None and partition.partition_epoch > old.partition_epoch + 1:
                        continue
                    for broker_id in anew:
                        if broker_id in (*partition.isr, *partition.elr):
                            raise self.broken(
                                f"broker {broker_id} registered after an unclean shutdown, but "
                                f"{topic.name}-{index} still has it: {partition}",
                                TopicPartition(topic.name, index),
                            )


class ElectionAllowed(Invariant):
    """A leader that may lack acknowledged records is elected only while nobody in ISR or ELR can lead, and then only if
    the config allows it, somebody asked for it, or both are empty and it led last. Under the minimum nobody leaves both
    but who may have lost something.
    """

    def __init__(self, rules: Rules, ended_unclean: EndedUnclean, is_asked_for: Callable[[], bool]) -> None:
        self._rules = rules
        self._ended_unclean = ended_unclean
        self._is_asked_for = is_asked_for
        # Who led last, as seen here and not as the metadata remembers it.
        self._led: dict[tuple[UUID, int], int] = {}

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        for change in changed(before, after):
            was, now = change.before, change.after
            if was.leader >= 0:
                self._led[change.topic.topic_id, change.index] = was.leader
            if now.partition_epoch != was.partition_epoch + 1:
                continue
            if is_unclean(was, now):
                self._check(before, after, change)
            else:
                self._check_kept(before, after, change)

    def _check_kept(self, before: ClusterImage, after: ClusterImage, change: _Changed) -> None:
        """Who is in neither set is not waited for: what it alone still has would be given up with the next leader."""
        was, now = change.before, change.after
        rules = self._rules(after, change.topic)
        enough = len(now.isr) >= rules.effective_min_isr(now.replicas)
        # Whoever sets the minimum, be it to what was in force, has the ELR cleared in the same batch (C5).
        if enough or not rules.elr_enabled or _minima(before, change.topic) != _minima(after, change.topic):
            return
        for member in sorted({*was.isr, *was.elr} - {*now.isr, *now.elr}):
            has_it = _brought_its_replica(before, after, now, member) and not self._lost(before, after, member)
            if member in now.replicas and has_it:
                what = f"broker {member} left both ISR and ELR, although it lost nothing: {change}"
                raise self.broken(what, change.partition)

    def _check(self, before: ClusterImage, after: ClusterImage, change: _Changed) -> None:
        was, now = change.before, change.after
        # Who registered after an unclean end left both sets by that, if the same batch tells of it.
        complete = [
            member
            for member in (*was.isr, *was.elr)
            if member in now.replicas and not self._lost(before, after, member)
        ]
        able = [member for member in complete if _can_lead(after, now, member)]
        if able:
            raise self.broken(
                f"broker {now.leader} leads by an unclean election, although {able} are complete: {change}",
                change.partition,
            )
        allowed = any(self._rules(image, change.topic).unclean_leader_election_enable for image in (before, after))
        led_last = not complete and self._led.get((change.topic.topic_id, change.index)) == now.leader
        if not allowed and not led_last and not self._is_asked_for():
            what = (
                f"broker {now.leader} leads without a permitted unclean election, and was not the last known "
                f"leader: {change}"
            )
            raise self.broken(what, change.partition)

    def _lost(self, before: ClusterImage, after: ClusterImage, broker_id: int) -> bool:
        old, new = before.brokers.get(broker_id), after.brokers.get(broker_id)
        return old is not None and new is not None and old.epoch != new.epoch and self._ended_unclean(new)


def _minima(image: ClusterImage, topic: TopicImage) -> list[str | None]:
    """As they are set for the topic and for all brokers, not as they count."""
    return [each.get(MIN_INSYNC_REPLICAS) for each in (image.topic_configs(topic.name), image.broker_configs(None))]


def _brought_its_replica(
    before: ClusterImage, after: ClusterImage, partition: PartitionRegistration, broker_id: int
) -> bool:
    """Whether its replica is where it was. Of a directory that was not told it is one of those it has."""
    old, new, directory = before.brokers.get(broker_id), after.brokers.get(broker_id), partition.directory_of(broker_id)
    if old is None or new is None or not is_online(new, directory):
        return False
    return directory not in RESERVED_UUIDS or set(old.log_dirs) <= set(new.log_dirs)


def _can_lead(image: ClusterImage, partition: PartitionRegistration, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    return is_online(broker, partition.directory_of(broker_id))


class Reassignment(Invariant):
    """Only catching up adds to the ISR; a reassignment never by itself takes the ISR below the effective minimum of the
    target assignment.
    """

    number = 15

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        for change in changed(before, after):
            was, now = change.before, change.after
            if now.replicas == was.replicas or now.partition_epoch != was.partition_epoch + 1:
                continue
            joined = set(now.isr) - set(was.isr)
            if joined - {*was.replicas}:
                raise self.broken(f"the assignment put {sorted(joined)} into the ISR: {change}", change.partition)
            needed = self._rules(after, change.topic).effective_min_isr(now.replicas)
            if len(was.isr) >= needed > len(now.isr):
                raise self.broken(f"the ISR fell below {needed}: {change}", change.partition)

"""Who leads a partition, and what its ISR and ELR become, when brokers come and go (rules C3, C5, C6).

the leader stays            if acceptable and in the ISR
else the first in order of  the ISR, and when that is empty the ELR
else, both empty            the last known leader alone, once acceptable: an unclean election, whatever the config
else                        any acceptable replica, if unclean elections are allowed
else                        nobody (-1)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from tidelog.core.ids import DIR_LOST, NO_LEADER
from tidelog.metadata.features import ELR_VERSION
from tidelog.metadata.image import ClusterImage, LeaderRecoveryState, PartitionRegistration, TopicImage
from tidelog.metadata.records import PartitionChangeRecord

Acceptable = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Elected:
    """`unclean`: records acknowledged earlier may be missing there."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """What of the cluster's settings an election depends on."""

    elr_enabled: bool
    min_insync_replicas: int
    unclean_leader_election_enable: bool


def elect(
    partition: PartitionRegistration,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    acceptable: Acceptable,
    rules: PartitionRules,
) -> Elected:
    """The leader out of the ISR and ELR that are meant to be."""
    if partition.leader in isr and acceptable(partition.leader):
        return Elected(partition.leader, isr)
    in_isr = [replica for replica in partition.replicas if replica in isr and acceptable(replica)]
    if in_isr:
        return Elected(in_isr[0], isr)
    if rules.elr_enabled and not isr:
        in_elr = [replica for replica in partition.replicas if replica in elr and acceptable(replica)]
        if in_elr:
            return Elected(in_elr[0], (in_elr[0],))
        if not elr and len(partition.last_known_elr) == 1 and acceptable(partition.last_known_elr[0]):
            return Elected(partition.last_known_elr[0], partition.last_known_elr, unclean=True)
    if rules.unclean_leader_election_enable:
        anybody = [replica for replica in partition.replicas if acceptable(replica)]
        if anybody:
            return Elected(anybody[0], (anybody[0],), unclean=True)
    return Elected(NO_LEADER, isr)


def change(
    topic_id: UUID,
    index: int,
    partition: PartitionRegistration,
    *,
    leaving: frozenset[int],
    uncleanly_restarted: frozenset[int],
    acceptable: Acceptable,
    rules: PartitionRules,
) -> PartitionChangeRecord | None:
    """What becomes of a partition when `leaving` brokers leave its ISR; None if nothing changes.

    An uncleanly restarted one may have lost records: it leaves the ELR too.
    """
    gone = leaving | uncleanly_restarted
    isr = tuple(replica for replica in partition.isr if replica not in gone)
    if not isr and not rules.elr_enabled:
        # Without an ELR the last member stays in the ISR: it is all that is known of where the records are.
        isr = partition.isr
    elr = tuple(replica for replica in partition.elr if replica not in uncleanly_restarted)
    elected = elect(partition, isr, elr, acceptable, rules)
    elr = _new_elr(partition, elected.isr, uncleanly_restarted, rules)
    last_known = _new_last_known(partition, elected, elr, rules)
    recovery = _new_recovery_state(partition, elected)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    if elected.isr != partition.isr:
        record.isr = list(elected.isr)
    if elected.leader != partition.leader:
        record.leader = elected.leader
    if elr != partition.elr:
        record.eligible_leader_replicas = list(elr)
    if last_known != partition.last_known_elr:
        record.last_known_elr = list(last_known)
    if recovery is not partition.leader_recovery_state:
        record.leader_recovery_state = recovery
    unchanged = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    return None if record == unchanged else record


def _new_elr(
    partition: PartitionRegistration, isr: tuple[int, ...], uncleanly_restarted: frozenset[int], rules: PartitionRules
) -> tuple[int, ...]:
    """Who still has every committed record though not in the ISR: needed only while the ISR is under the minimum."""
    if not rules.elr_enabled or len(isr) >= min(rules.min_insync_replicas, len(partition.replicas)):
        return ()
    candidates = dict.fromkeys((*partition.isr, *partition.elr))
    return tuple(each for each in candidates if each not in isr and each not in uncleanly_restarted)


def _new_last_known(
    partition: PartitionRegistration, elected: Elected, elr: tuple[int, ...], rules: PartitionRules
) -> tuple[int, ...]:
    if not rules.elr_enabled:
        return ()
    if elected.isr:
        enough = len(elected.isr) >= min(rules.min_insync_replicas, len(partition.replicas))
        return () if enough else partition.last_known_elr
    # The first time it is without a leader: whoever led last knew the most.
    return (partition.leader,) if partition.leader != NO_LEADER else partition.last_known_elr


def _new_recovery_state(partition: PartitionRegistration, elected: Elected) -> LeaderRecoveryState:
    if elected.unclean:
        return LeaderRecoveryState.RECOVERING
    return partition.leader_recovery_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A record and what it changes, for whoever tells of it."""

    topic: TopicImage
    index: int
    before: PartitionRegistration
    record: PartitionChangeRecord


def changes(
    image: ClusterImage,
    rules_of: Callable[[TopicImage], PartitionRules],
    *,
    leaving: int | None = None,
    returning: int | None = None,
    uncleanly_restarted: int | None = None,
) -> Iterator[Change]:
    """What a broker's leaving, return or unclean restart changes, in the order of the image."""
    touched = {each for each in (leaving, returning, uncleanly_restarted) if each is not None}
    gone = frozenset(_some(leaving))
    unclean = frozenset(_some(uncleanly_restarted))
    for topic in image.topics_by_id.values():
        rules: PartitionRules | None = None
        for index, partition in topic.partitions.items():
            if touched.isdisjoint(partition.replicas):
                continue
            if returning is not None and partition.leader != NO_LEADER:
                # Coming back makes a difference only where nobody leads; joining the ISR is for fetches to earn.
                continue
            rules = rules or rules_of(topic)
            record = change(
                topic.topic_id,
                index,
                partition,
                leaving=gone,
                uncleanly_restarted=unclean,
                acceptable=_acceptance(image, partition, gone | unclean, returning),
                rules=rules,
            )
            if record is not None:
                yield Change(topic=topic, index=index, before=partition, record=record)


def _acceptance(
    image: ClusterImage, partition: PartitionRegistration, gone: frozenset[int], returning: int | None
) -> Acceptable:
    """Unfenced (or being unfenced by this decision), not shutting down, directory online."""

    def acceptable(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        if broker is None or broker_id in gone or broker_id not in partition.replicas:
            return False
        if not (broker.active or (broker_id == returning and not broker.in_controlled_shutdown)):
            return False
        return partition.directory_of(broker_id) != DIR_LOST

    return acceptable


def _some(value: int | None) -> Iterable[int]:
    return () if value is None else (value,)


def elr_enabled(image: ClusterImage) -> bool:
    return image.features.get(ELR_VERSION, 0) >= 1

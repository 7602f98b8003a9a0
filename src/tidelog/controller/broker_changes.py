"""What becomes of partitions when a broker leaves, returns, restarts or loses a directory (rules C3, C5, C10)."""

from collections.abc import Callable, Collection
from uuid import UUID

from tidelog.controller.decision import Situation
from tidelog.controller.partition_drafts import Change, PartitionDrafts
from tidelog.controller.partition_targets import Target
from tidelog.controller.partitions import is_online
from tidelog.core.ids import NO_LEADER, RESERVED_UUIDS
from tidelog.metadata.image import ClusterImage, PartitionRegistration


def leaving(situation: Situation, broker_id: int) -> list[Change]:
    """It goes from every ISR and leads nothing; where the ISR is short it stays eligible."""
    return _without(situation, broker_id, lambda _: True)


def directories_failed(situation: Situation, broker_id: int, failed: Collection[UUID]) -> list[Change]:
    """As if it left, but only where its replica lies in one of these directories."""
    return _without(situation, broker_id, lambda partition: partition.directory_of(broker_id) in failed)


def _without(situation: Situation, broker_id: int, concerned: Callable[[PartitionRegistration], bool]) -> list[Change]:
    drafts = PartitionDrafts(situation, gone=[broker_id])
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if broker_id in partition.isr and concerned(partition):
                isr = tuple(each for each in partition.isr if each != broker_id)
                drafts.change(topic, index, Target(isr=isr, election=drafts.rules(topic).election))
    return drafts.changes


def restarted(situation: Situation, broker_id: int, *, clean: bool, log_dirs: Collection[UUID]) -> list[Change]:
    """A new incarnation leaves every ISR (E6).

    After an unclean end it leaves the ELR too, and so it does, however it ended, where its replica lay in a directory
    that it did not bring along, or may have lain there: if the replica is ever there again, it is an empty one.
    """
    drafts = PartitionDrafts(situation, gone=[broker_id])
    known = situation.image.brokers.get(broker_id)
    brought_all = known is not None and set(known.log_dirs) <= set(log_dirs)
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if broker_id not in partition.isr and broker_id not in partition.elr:
                continue
            directory = partition.directory_of(broker_id)
            complete = clean and (directory in log_dirs or (directory in RESERVED_UUIDS and brought_all))
            target = Target(
                isr=tuple(each for each in partition.isr if each != broker_id),
                uncleanly_restarted=frozenset() if complete else frozenset([broker_id]),
                election=drafts.rules(topic).election,
            )
            drafts.change(topic, index, target)
    return drafts.changes


def returning(situation: Situation, broker_id: int) -> list[Change]:
    """Coming back makes a difference only where nobody leads; joining the ISR is for fetches to earn."""
    drafts = PartitionDrafts(situation, returning=broker_id)
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if partition.leader == NO_LEADER and broker_id in partition.replicas:
                drafts.change(topic, index, Target(election=drafts.rules(topic).election))
    return drafts.changes


def unfinished(situation: Situation) -> list[Change]:
    """What the last controller's decisions imply and it did not live to write.

    A decision of more than one batch may have been committed in part: an unfenced broker may have been given only some
    of the partitions that waited for it.
    """
    drafts = PartitionDrafts(situation)
    for topic in situation.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            isr = tuple(each for each in partition.isr if _in_service(situation.image, partition, each))
            if partition.leader == NO_LEADER or isr != partition.isr:
                drafts.change(topic, index, Target(isr=isr, election=drafts.rules(topic).election))
    return drafts.changes


def _in_service(image: ClusterImage, partition: PartitionRegistration, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active and is_online(broker, partition.directory_of(broker_id))

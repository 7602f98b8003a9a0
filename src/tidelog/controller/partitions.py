"""New partitions: their replicas, directories, first ISR and leader."""

import random
from collections.abc import Sequence
from uuid import UUID

from tidelog.controller.placement import Placer, UsableBroker
from tidelog.core.ids import DIR_LOST, DIR_UNASSIGNED, RESERVED_UUIDS
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.metadata.records import PartitionRecord
from tidelog.wire.errors import ApiError, ErrorCode

# As Kafka: what one request may create, so that one decision stays one bounded batch.
MAX_PARTITIONS_PER_REQUEST = 10_000


def placer_for(image: ClusterImage, rng: random.Random) -> Placer:
    """Over every registered broker that has a directory to put a replica into."""
    usable = [
        UsableBroker(broker.broker_id, broker.rack, not broker.active)
        for broker in image.brokers.values()
        if usable_directories(broker) or not broker.log_dirs
    ]
    return Placer(usable, rng)


def usable_directories(broker: BrokerRegistration) -> tuple[UUID, ...]:
    """Directories that are online and not cordoned."""
    cordoned = broker.cordoned_log_dirs or ()
    return tuple(directory for directory in broker.log_dirs if directory not in cordoned)


def is_online(broker: BrokerRegistration, directory: UUID) -> bool:
    """Whether a replica can be used there. Of a directory that was not told yet only good is known."""
    if directory in RESERVED_UUIDS:
        return directory != DIR_LOST
    return not broker.log_dirs or directory in broker.log_dirs


def check_assignment(image: ClusterImage, replicas: Sequence[int], expected_factor: int | None) -> None:
    """A manual assignment: nobody twice, everybody registered, as many as the others have."""
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for broker_id in replicas:
        if broker_id in seen:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        seen.add(broker_id)
        if broker_id not in image.brokers:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    if expected_factor is not None and len(replicas) != expected_factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected_factor} replica(s)."
        )


def new_partition(image: ClusterImage, topic_id: UUID, index: int, replicas: Sequence[int]) -> PartitionRecord:
    """The record of a partition that starts: its ISR is who is there, the first of them leads."""
    isr = [broker_id for broker_id in replicas if image.brokers[broker_id].active]
    if not isr:
        raise _bad_assignment(f"All brokers of partition {index}'s assignment are fenced or shutting down.")
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[first_directory(image.brokers[broker_id]) for broker_id in replicas],
    )


def first_directory(broker: BrokerRegistration) -> UUID:
    """With several the broker chooses, and tells (KIP-858)."""
    usable = usable_directories(broker)
    return usable[0] if len(broker.log_dirs) == 1 and usable else DIR_UNASSIGNED


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

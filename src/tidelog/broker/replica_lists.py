"""What a client is told of a partition's replicas, given which brokers are there."""

from tidelog.controller.partitions import is_online
from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import ClusterImage, PartitionRegistration


def visible_leader(image: ClusterImage, registration: PartitionRegistration) -> int:
    """The leader, or -1 when it is not registered or fenced."""
    broker = image.brokers.get(registration.leader)
    return NO_LEADER if broker is None or broker.fenced else registration.leader


def offline_replicas(image: ClusterImage, registration: PartitionRegistration) -> list[int]:
    """Replicas whose broker is gone or fenced, or their directory failed, in assignment order."""
    offline = []
    for replica in registration.replicas:
        broker = image.brokers.get(replica)
        if broker is None or broker.fenced or not is_online(broker, registration.directory_of(replica)):
            offline.append(int(replica))
    return offline
